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
	leaseSuffix = ".lease" // expiry and owner of a kept mesh's lease
	leaseFormat = "%-36s %020d %020d %020d %-320s\n"
)

// minLeaseFraction is the divisor of the TTL that gives the minimal lease after adoption. The owner
// renews after each third of the TTL and could not reach a host meanwhile.
const minLeaseFraction = 2

// formatLease encodes a lease in the clock of a boot, because no proc survives a reboot. The length
// is fixed, so a write replaces the whole file.
func formatLease(boot string, now, term time.Duration, by agent.Claim) []byte {
	return fmt.Appendf(nil, leaseFormat, boot, int64(now+term), int64(term), by.Epoch, by.Owner)
}

// parseLease decodes a stored lease. It returns the remaining time and the owner, or false for an
// unusable one.
func parseLease(text []byte, boot string, now time.Duration) (left time.Duration, by agent.Claim, ok bool) {
	var at, owner string
	var until, term time.Duration
	n, _ := fmt.Sscanf(string(text), "%s %d %d %d %s", &at, &until, &term, &by.Epoch, &owner)
	if n < 3 || at != boot || term <= 0 {
		return 0, agent.Claim{}, false
	}
	var err error
	by.Owner, err = subjects.ParseActorID(owner)
	if err != nil {
		by = agent.Claim{} // no owner claims the mesh
	}
	return min(max(until-now, term/minLeaseFraction), term), by, true
}

func (s *store) leaseFile(mesh string) string { return filepath.Join(s.dir, mesh+leaseSuffix) }

// saveLease stores a renewed lease; 0 removes it. If the disk fails, adoption starts the lease from
// its full TTL.
func (s *store) saveLease(mesh string, term time.Duration, by agent.Claim) {
	if s == nil {
		return
	}
	boot, now := launch.BootClock()
	if term <= 0 || boot == "" {
		_ = os.Remove(s.leaseFile(mesh)) // may not exist
		return
	}
	f, err := os.OpenFile(s.leaseFile(mesh), os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(formatLease(boot, now, term, by), 0)
	_ = f.Close()
}

// restoreLeases gives each proc the remaining lease and the owner of its mesh. It removes other
// leases.
func (s *store) restoreLeases(all []procRecord) {
	meshes := map[string]bool{}
	boot, now := launch.BootClock()
	for i, k := range all {
		mesh := k.Mesh.ID.String()
		meshes[mesh] = true
		text, _ := os.ReadFile(s.leaseFile(mesh)) // without it the lease restarts
		if left, by, ok := parseLease(text, boot, now); ok {
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
