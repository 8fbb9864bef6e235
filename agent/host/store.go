package host

import (
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
	"github.com/castnet-io/castnet/subjects"
)

const (
	lockName     = "lock"          // holds the pid of the host that uses the directory
	identityName = "identity.json" // who that is, from one life to the next
	keptSuffix   = ".proc.json"
	toldSuffix   = ".told" // how much of a proc's output is published
	draftSuffix  = ".new"
)

// StateError says that the state directory does not take what a host has to know later.
type StateError struct {
	Dir string
	Err error
}

func (e *StateError) Error() string {
	return fmt.Sprintf("state directory %s: %v", e.Dir, e.Err)
}

func (e *StateError) Unwrap() error { return e.Err }

// kept is what the next host has to know of a proc.
type kept struct {
	Mesh    agent.Mesh    `json:"mesh"`
	Rank    int           `json:"rank"`
	Gen     int           `json:"gen"`
	Nonce   string        `json:"nonce"`
	Lease   time.Duration `json:"lease"`           // as it was made; what is left of it is in a file of its own
	Claim   agent.Claim   `json:"claim,omitzero"`  // likewise
	Config  keys.Snapshot `json:"config,omitzero"` // what its client pushed
	Process launch.Record `json:"process"`
}

func (k kept) id() subjects.ProcID { return k.Mesh.Proc(k.Rank, k.Gen) }

// store is a host's state directory. One host at a time has it. A nil store has nothing.
type store struct {
	dir  string
	lock *os.File
	log  zerolog.Logger
}

// identity is who a host is from one life to the next.
type identity struct {
	ID    subjects.HostID `json:"id"`
	First uint64          `json:"first"` // no packet of its last life had a number so high
}

// openStore takes a directory, or says who has it.
func openStore(dir string, log zerolog.Logger) (*store, error) {
	fail := func(err error) (*store, error) { return nil, &StateError{dir, err} }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(err)
	}
	if pid, err := takeLock(lock); err != nil {
		defer lock.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fail(err)
		}
		return fail(fmt.Errorf("a hostd uses it already (pid %s): want another --state-dir", pid)) // without it, that it is taken is still said
	}
	s := &store{dir: dir, lock: lock, log: log}
	if err = lock.Truncate(0); err == nil {
		_, err = lock.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		log.Warn().Err(&StateError{dir, err}).Msg("who else wants the directory will not be told the pid")
	}
	return s, nil
}

// deadWithin is how long a lock is waited for whose holder is dead: a process that it had forked has it, too, until
// it has executed its program.
const deadWithin = time.Second

// takeLock locks a file, or says who has.
func takeLock(file *os.File) (pid string, err error) {
	for deadline := time.Now().Add(deadWithin); ; time.Sleep(deadWithin / 100) {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
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
	if err := s.lock.Close(); !errors.Is(err, os.ErrClosed) { // a host that did not close whole is closed again
		return err
	}
	return nil
}

// since is the origin of packet numbers: see identify.
var since = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// identify says who the host is: who it was when the directory knows one. Of its packets each life has
// numbers of its own: they grow with the clock, by 16 for each millisecond, and by a million at least.
func (s *store) identify(label string, now time.Time) (identity, error) {
	path := filepath.Join(s.dir, identityName)
	var who identity
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if who.ID, err = subjects.NewHostID(label); err != nil {
			return who, err
		}
	case err != nil:
		return who, &StateError{s.dir, err}
	default:
		if err := json.Unmarshal(data, &who); err != nil {
			return who, &StateError{s.dir, fmt.Errorf("%s: %w", identityName, err)}
		}
		if who.ID.Label() != label {
			return who, &StateError{s.dir, fmt.Errorf("it is of host %q: want --label %s, or another --state-dir", who.ID.Label(), who.ID.Label())}
		}
	}
	who.First = max(who.First+1<<20, uint64(max(0, now.Sub(since).Milliseconds()))<<4)
	if data, err = json.Marshal(who); err != nil {
		return who, err
	}
	d, err := s.draft(identityName, data)
	if err == nil {
		err = d.commit(data)
	}
	return who, err
}

// draft is a file that is to take the place of another. It has its room on the disk from the beginning:
// who cannot be written down is not begun with.
type draft struct {
	store *store
	name  string
	file  *os.File
	room  int
}

// spare is room for what is not known when a draft is made.
const spare = 4 << 10

func (s *store) draft(name string, data []byte) (*draft, error) {
	file, err := os.OpenFile(filepath.Join(s.dir, name+draftSuffix), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &StateError{s.dir, err}
	}
	d := &draft{store: s, name: name, file: file, room: len(data) + spare}
	if err = d.write(data); err == nil {
		err = file.Sync()
	}
	if err != nil {
		d.drop()
		return nil, &StateError{s.dir, err}
	}
	return d, nil
}

// write fills all of the room: JSON may end in blanks.
func (d *draft) write(data []byte) error {
	blanks := slices.Repeat([]byte{' '}, max(0, d.room-len(data)))
	_, err := d.file.WriteAt(append(slices.Clip(data), blanks...), 0)
	return err
}

// commit writes what is known now, and puts it in its place: all of it or nothing is found there.
func (d *draft) commit(data []byte) error {
	err := d.write(data)
	if err == nil {
		err = d.file.Sync()
	}
	if err == nil {
		failpoint.Hit("host-state-written")
		err = os.Rename(d.file.Name(), filepath.Join(d.store.dir, d.name))
	}
	if err != nil {
		d.drop()
		return &StateError{d.store.dir, err}
	}
	_ = d.file.Close() // it is on the disk
	if dir, err := os.Open(d.store.dir); err == nil {
		_ = dir.Sync() // what is lost here with the machine is of processes that are lost with it
		_ = dir.Close()
	}
	return nil
}

func (d *draft) drop() {
	_ = d.file.Close()
	_ = os.Remove(d.file.Name())
}

func keptName(id subjects.ProcID) string { return id.Process().String() + keptSuffix }

// reserve makes room for a proc that is to be launched.
func (s *store) reserve(k kept) (*draft, error) {
	data, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	return s.draft(keptName(k.id()), data)
}

// record writes down a proc that has been launched.
func (d *draft) record(k kept) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return d.commit(data)
}

// forget is for a proc that has ended, and been told.
func (s *store) forget(id subjects.ProcID) {
	if s == nil {
		return
	}
	_ = os.Remove(s.toldFile(id)) // there is none when it printed nothing
	if err := os.Remove(filepath.Join(s.dir, keptName(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn().Err(err).Msg("the next host here will be told of a proc that has ended")
	}
}

func (s *store) toldFile(id subjects.ProcID) string {
	return filepath.Join(s.dir, id.Process().String()+toldSuffix)
}

// marks takes down how much of the output of a proc is published. A disk that does not take it makes the
// next host publish some of it again.
func (s *store) marks(id subjects.ProcID) func(launch.Stream, int64) {
	if s == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(s.dir, keptName(id))); err != nil {
		return nil // it is not kept
	}
	var at [2]int64
	told := s.told(id)
	at[launch.Stdout], at[launch.Stderr] = told[0], told[1]
	return func(stream launch.Stream, offset int64) {
		at[stream] = offset
		f, err := os.OpenFile(s.toldFile(id), os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return
		}
		_, _ = f.WriteAt(fmt.Appendf(nil, toldFormat, at[0], at[1]), 0)
		_ = f.Close()
	}
}

const toldFormat = "%020d %020d\n" // of one length, so that it is replaced as a whole

func (s *store) told(id subjects.ProcID) (at [2]int64) {
	data, _ := os.ReadFile(s.toldFile(id))
	if _, err := fmt.Sscanf(string(data), "%d %d", &at[0], &at[1]); err != nil {
		return [2]int64{}
	}
	return at
}

// load reads what an earlier host has written down, generations of a rank in their order. What cannot
// be read is of no use: it is said, and left alone.
func (s *store) load() (all []kept) {
	paths, _ := filepath.Glob(filepath.Join(s.dir, "*"))
	for _, path := range paths {
		switch {
		case strings.HasSuffix(path, draftSuffix): // its host died over it
			_ = os.Remove(path)
		case strings.HasSuffix(path, keptSuffix):
			var k kept
			data, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(data, &k)
			}
			if err == nil {
				err = k.Mesh.Check()
			}
			if err == nil && keptName(k.id()) != filepath.Base(path) {
				err = fmt.Errorf("it is of %s", k.id())
			}
			if err != nil {
				s.log.Error().Err(err).Str("file", path).Msg("a proc that an earlier host launched is not known")
				continue
			}
			told := s.told(k.id())
			k.Process.Stdout.Told, k.Process.Stderr.Told = told[0], told[1]
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(x, y kept) int {
		return cmp.Or(x.Mesh.ID.Compare(y.Mesh.ID), cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Gen, y.Gen))
	})
	return all
}
