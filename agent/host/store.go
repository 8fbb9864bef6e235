package host

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/failpoint"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/subjects"
)

const (
	lockName      = "lock"          // holds the pid of the using host
	identityName  = "identity.json" // identity of the host over its incarnations
	procSuffix    = ".proc.json"
	offsetsSuffix = ".told"  // published offsets of a proc's output
	leaseSuffix   = ".lease" // expiry and owner of a kept mesh's lease
	tempSuffix    = ".new"
)

// StateError reports that the state directory cannot store a record.
type StateError struct {
	Dir string
	Err error
}

// Error omits the file of an operating system's error. Each rank has its own file, so the ranks of
// a spawn would differ in their reasons.
func (e *StateError) Error() string {
	cause := e.Err
	if errno, ok := errors.AsType[syscall.Errno](e.Err); ok {
		cause = errno
	}
	return fmt.Sprintf("state directory %s: %v", e.Dir, cause)
}

func (e *StateError) Unwrap() error { return e.Err }

// procRecord is the stored record of a proc for the next host.
type procRecord struct {
	Mesh   agent.Mesh    `json:"mesh"`
	Rank   int           `json:"rank"`
	Gen    int           `json:"gen"`
	Nonce  string        `json:"nonce"`
	Ticket string        `json:"ticket,omitempty"` // serial
	Lease  time.Duration `json:"lease"`            // at creation; the remaining lease has its own file
	Claim  agent.Claim   `json:"claim,omitzero"`   // likewise
	// Principal is that of the claim's owner, likewise.
	Principal subjects.Principal `json:"principal,omitzero"`
	Config    keys.Snapshot      `json:"config,omitzero"` // pushed by its client
	Process   launch.Record      `json:"process"`
}

func (k procRecord) procID() subjects.ProcID { return k.Mesh.ProcID(k.Rank, k.Gen) }

// store is the state directory of a host, used by one host at a time. A nil store holds nothing.
type store struct {
	dir  string
	lock *os.File
	log  zerolog.Logger
}

// hostIdentity is the identity of a host over its incarnations.
type hostIdentity struct {
	ID          subjects.HostID `json:"id"`
	FirstPacket uint64          `json:"first_packet"` // above all packet numbers of the last incarnation
}

// openStore locks a directory. If it is in use, the error names the user.
func openStore(dir string, log zerolog.Logger) (*store, error) {
	fail := func(err error) (*store, error) { return nil, &StateError{dir, err} }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(err)
	}
	if pid, err := lockFile(lock); err != nil {
		defer lock.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fail(err)
		}
		// the error stands without the pid, too
		return fail(fmt.Errorf("another hostd uses it (pid %s): want another --state-dir", pid))
	}
	s := &store{dir: dir, lock: lock, log: log}
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		log.Warn().Err(&StateError{dir, err}).Msg("cannot write the pid file")
	}
	return s, nil
}

// deadLockTimeout bounds the wait for the lock of a dead process. A forked child shares the lock
// until its exec.
const deadLockTimeout = time.Second

// lockFile locks a file or returns the holder's pid.
func lockFile(file *os.File) (pid string, err error) {
	for deadline := time.Now().Add(deadLockTimeout); ; time.Sleep(deadLockTimeout / 100) {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return "", err
		}
		data, _ := os.ReadFile(file.Name())
		pid = strings.TrimSpace(string(data))
		n, bad := strconv.Atoi(pid)
		dead := bad == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
		if !dead || time.Now().After(deadline) {
			return pid, err
		}
	}
}

func (s *store) close() error {
	if s == nil {
		return nil
	}
	if err := s.lock.Close(); !errors.Is(err, os.ErrClosed) { // a partly closed host is closed again
		return err
	}
	return nil
}

// packetEpoch is the origin of packet numbers, see loadIdentity.
var packetEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// loadIdentity returns the stored identity, or a new one. Each incarnation gets its own range of
// packet numbers: they grow by 16 per millisecond, and by at least a million.
func (s *store) loadIdentity(label string, now time.Time) (hostIdentity, error) {
	path := filepath.Join(s.dir, identityName)
	var who hostIdentity
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		who.ID, err = subjects.NewHostID(label)
		if err != nil {
			return who, err
		}
	case err != nil:
		return who, &StateError{s.dir, err}
	default:
		if err := json.Unmarshal(data, &who); err != nil {
			return who, &StateError{s.dir, fmt.Errorf("%s: %w", identityName, err)}
		}
		if who.ID.Label() != label {
			is := who.ID.Label()
			return who, &StateError{
				s.dir, fmt.Errorf("it belongs to host %q: want --label %s, or another --state-dir", is, is),
			}
		}
	}
	who.FirstPacket = max(who.FirstPacket+1<<20, uint64(max(0, now.Sub(packetEpoch).Milliseconds()))<<4)
	data, err = json.Marshal(who)
	if err != nil {
		return who, err
	}
	d, err := s.newPendingFile(identityName, data)
	if err == nil {
		err = d.commit(data)
	}
	return who, err
}

// pendingFile will replace another file. Its disk space is reserved first, so a proc that cannot be
// recorded is not launched.
type pendingFile struct {
	store *store
	name  string
	file  *os.File
	size  int
}

// pendingFileSlack is space for values that are unknown at the reservation.
const pendingFileSlack = 4 << 10

func (s *store) newPendingFile(name string, data []byte) (*pendingFile, error) {
	file, err := os.OpenFile(filepath.Join(s.dir, name+tempSuffix),
		os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &StateError{s.dir, err}
	}
	d := &pendingFile{store: s, name: name, file: file, size: len(data) + pendingFileSlack}
	err = d.write(data)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		d.discard()
		return nil, &StateError{s.dir, err}
	}
	return d, nil
}

// write fills the reserved space. JSON permits trailing blanks.
func (d *pendingFile) write(data []byte) error {
	blanks := slices.Repeat([]byte{' '}, max(0, d.size-len(data)))
	_, err := d.file.WriteAt(append(slices.Clip(data), blanks...), 0)
	return err
}

// commit writes the final content and renames the file atomically.
func (d *pendingFile) commit(data []byte) error {
	err := d.write(data)
	if err == nil {
		err = d.file.Sync()
	}
	if err == nil {
		failpoint.Hit("host-state-written")
		err = os.Rename(d.file.Name(), filepath.Join(d.store.dir, d.name))
	}
	if err != nil {
		d.discard()
		return &StateError{d.store.dir, err}
	}
	_ = d.file.Close() // already synced
	if dir, err := os.Open(d.store.dir); err == nil {
		_ = dir.Sync() // a crash of the machine also ends the recorded processes
		_ = dir.Close()
	}
	return nil
}

func (d *pendingFile) discard() {
	_ = d.file.Close()
	_ = os.Remove(d.file.Name())
}

func procFile(id subjects.ProcID) string { return id.Process().String() + procSuffix }

// reserve reserves the record of a proc to launch.
func (s *store) reserve(k procRecord) (*pendingFile, error) {
	data, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	return s.newPendingFile(procFile(k.procID()), data)
}

// record stores a launched proc.
func (d *pendingFile) record(k procRecord) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return d.commit(data)
}

// removeProc removes the record of a proc whose end was reported.
func (s *store) removeProc(id subjects.ProcID) {
	if s == nil {
		return
	}
	failpoint.Hit("host-ended")
	_ = os.Remove(s.offsetsFile(id)) // absent without output
	if err := os.Remove(filepath.Join(s.dir, procFile(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn().Err(err).Msg("cannot remove the record of an ended proc")
	}
}

// overwrite stores a value in place, without a copy or a sync: such files change often, and are of
// use to this boot only. If the disk fails, the former value or none is read.
func (s *store) overwrite(path string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(data, 0)
	_ = f.Close()
}

// readOverwritten reads the value of overwrite. A longer former value may follow it.
func (s *store) readOverwritten(path string, v any) bool {
	data, _ := os.ReadFile(path) // may not exist
	return json.NewDecoder(bytes.NewReader(data)).Decode(v) == nil
}

func (s *store) offsetsFile(id subjects.ProcID) string {
	return filepath.Join(s.dir, id.Process().String()+offsetsSuffix)
}

// offsetRecorder returns a function that stores the published offsets of a proc. If the disk fails,
// the next host publishes some output twice.
func (s *store) offsetRecorder(id subjects.ProcID) func(logfile.Stream, int64) {
	if s == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(s.dir, procFile(id))); err != nil {
		return nil // not kept
	}
	at := s.readOffsets(id)
	return func(stream logfile.Stream, offset int64) {
		at[stream] = offset
		s.overwrite(s.offsetsFile(id), at)
	}
}

func (s *store) readOffsets(id subjects.ProcID) (at [2]int64) {
	if !s.readOverwritten(s.offsetsFile(id), &at) {
		return [2]int64{}
	}
	return at
}

// loadProcs reads the records of an earlier host, the generations of a rank in order. It logs and
// skips unreadable files.
func (s *store) loadProcs() (all []procRecord) {
	paths, _ := filepath.Glob(filepath.Join(s.dir, "*"))
	for _, path := range paths {
		if strings.HasSuffix(path, tempSuffix) { // the host died during this write
			_ = os.Remove(path)
		} else if strings.HasSuffix(path, procSuffix) {
			var k procRecord
			data, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(data, &k)
			}
			if err == nil {
				err = k.Mesh.Check()
			}
			if err == nil && procFile(k.procID()) != filepath.Base(path) {
				err = fmt.Errorf("the record is of %s", k.procID())
			}
			if err != nil {
				s.log.Error().Err(err).Str("file", path).Msg("cannot read the record of a proc of the previous hostd")
				continue
			}
			for stream, at := range s.readOffsets(k.procID()) {
				k.Process.Output[stream].Resume = at
			}
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(x, y procRecord) int {
		return cmp.Or(x.Mesh.ID.Compare(y.Mesh.ID), cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Gen, y.Gen))
	})
	return all
}

// storedLease is the lease of a kept mesh, in the clock of a boot, because no proc survives a
// reboot.
type storedLease struct {
	Boot  string        `json:"boot"`
	Until time.Duration `json:"until"`
	TTL   time.Duration `json:"ttl"`
	Claim agent.Claim   `json:"claim,omitzero"`
	// Principal is that of the claim's owner.
	Principal subjects.Principal `json:"principal,omitzero"`
}

// remaining returns the remaining time, or false for a lease of another boot. At least half of the
// TTL remains: the owner renews after each third of it, and could not reach a host meanwhile.
func (l storedLease) remaining(boot string, now time.Duration) (left time.Duration, ok bool) {
	if l.Boot != boot || l.TTL <= 0 {
		return 0, false
	}
	return min(max(l.Until-now, l.TTL/2), l.TTL), true
}

func (s *store) leaseFile(mesh string) string { return filepath.Join(s.dir, mesh+leaseSuffix) }

// saveLease stores a renewed lease; 0 removes it. If the disk fails, adoption starts the lease from
// its full TTL.
func (s *store) saveLease(mesh string, ttl time.Duration, by agent.Claim, principal subjects.Principal) {
	if s == nil {
		return
	}
	boot, now := launch.BootClock()
	if ttl <= 0 || boot == "" {
		_ = os.Remove(s.leaseFile(mesh)) // may not exist
		return
	}
	s.overwrite(s.leaseFile(mesh), storedLease{
		Boot: boot, Until: now + ttl, TTL: ttl, Claim: by, Principal: principal,
	})
}

// restoreLeases gives each proc the remaining lease and the owner of its mesh. It removes other
// leases.
func (s *store) restoreLeases(all []procRecord) {
	meshes := map[string]bool{}
	boot, now := launch.BootClock()
	for i, k := range all {
		mesh := k.Mesh.ID.String()
		meshes[mesh] = true
		var lease storedLease
		if !s.readOverwritten(s.leaseFile(mesh), &lease) {
			continue // the lease restarts
		}
		if left, ok := lease.remaining(boot, now); ok {
			all[i].Lease = left
			if lease.Claim.Compare(k.Claim) > 0 {
				all[i].Claim = lease.Claim
				all[i].Principal = lease.Principal
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
