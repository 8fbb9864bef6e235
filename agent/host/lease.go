package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/subjects"
)

const (
	leaseSuffix = ".lease" // when the lease of a kept mesh runs out, and who has renewed it
	leaseFormat = "%-36s %020d %020d %020d %-320s\n"
)

// fairShare is the part of its term that a lease has at least when procs are adopted: its owner could reach
// no host for a while, and renews it whenever a third of it is over.
const fairShare = 2

// leaseText is a lease as it is written down: in the clock of a boot, since another boot has no procs of
// this one. It has one length, so that it is replaced as a whole.
func leaseText(boot string, now, term time.Duration, by agent.Claim) []byte {
	return fmt.Appendf(nil, leaseFormat, boot, int64(now+term), int64(term), by.Epoch, by.Owner)
}

// leaseLeft is how much of a lease is left, of what was written down, and who renewed it; false: nothing that counts
// was.
func leaseLeft(text []byte, boot string, now time.Duration) (left time.Duration, by agent.Claim, ok bool) {
	var at, owner string
	var until, term time.Duration
	n, _ := fmt.Sscanf(string(text), "%s %d %d %d %s", &at, &until, &term, &by.Epoch, &owner)
	if n < 3 || at != boot || term <= 0 {
		return 0, agent.Claim{}, false
	}
	var err error
	if by.Owner, err = subjects.ParseActorID(owner); err != nil {
		by = agent.Claim{} // nobody claims the mesh
	}
	return min(max(until-now, term/fairShare), term), by, true
}

func (s *store) leaseFile(mesh string) string { return filepath.Join(s.dir, mesh+leaseSuffix) }

// lease writes down that the lease of a mesh has been renewed, for so long; 0: it is over. A disk that does
// not take it makes the lease run anew when its procs are adopted.
func (s *store) lease(mesh string, term time.Duration, by agent.Claim) {
	if s == nil {
		return
	}
	boot, now := launch.BootClock()
	if term <= 0 || boot == "" {
		_ = os.Remove(s.leaseFile(mesh)) // there may be none
		return
	}
	f, err := os.OpenFile(s.leaseFile(mesh), os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(leaseText(boot, now, term, by), 0)
	_ = f.Close()
}

// leases gives each proc what is left of the lease of its mesh, with whose it is, and removes the leases of others.
func (s *store) leases(all []kept) {
	meshes := map[string]bool{}
	boot, now := launch.BootClock()
	for i, k := range all {
		mesh := k.Mesh.ID.String()
		meshes[mesh] = true
		text, _ := os.ReadFile(s.leaseFile(mesh)) // without it the lease runs anew
		if left, by, ok := leaseLeft(text, boot, now); ok {
			all[i].Lease = left
			if by.Compare(k.Claim) > 0 {
				all[i].Claim = by
			}
		}
	}
	paths, _ := filepath.Glob(filepath.Join(s.dir, "*"+leaseSuffix))
	for _, path := range paths {
		if !meshes[strings.TrimSuffix(filepath.Base(path), leaseSuffix)] {
			_ = os.Remove(path)
		}
	}
}
