package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// EnvVar announces the inherited descriptors to a child: "PAYLOAD,LIFELINE",
	// and ",keep" behind it when the child outlives its launcher.
	EnvVar = "CASTNET_PROC"

	// MaxPayload is the largest payload that is sent or accepted.
	MaxPayload = 1 << 20

	keptMark = ",keep"

	stderrFD   = 2
	payloadFD  = 3
	lifelineFD = 4
)

// A Spec says what to run. Nothing is taken from the launcher's own process:
// an empty Env is an empty environment. Payload must not be changed afterwards.
type Spec struct {
	Name    string   // names the log files and appears in errors
	Path    string   // absolute path of the executable; no search, no shell
	Args    []string // arguments after the program's name, which is Path
	Env     []string // KEY=VALUE; of two with one key the later counts
	Dir     string   // working directory; "" is the launcher's
	Payload []byte   // what the child reads with Inherited.Payload
	LogDir  string   // existing directory for NAME.stdout.log, NAME.stderr.log
	LogCap  int64    // bytes of each that are kept at least, twice as many at most (LCH-10); 0 = 64 MiB
	Limits  Limits   // of the child with all it starts
	Keep    bool     // it outlives its launcher; needs Options.StateDir
	NoProc  bool     // it is told nothing of payload and lifeline: FromEnv is false in it

	lifeline    string         // path of a kept child's FIFO
	marker      string         // environment entry by which orphans are known; "" = none
	deathSignal syscall.Signal // what the end of the launcher sends; 0 = nothing
}

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$`)

// validate finds what can be known before anything is created (LCH-3). The
// kernel has the last word: a path may change between here and the exec.
func (s *Spec) validate() error {
	if !nameRule.MatchString(s.Name) {
		return fmt.Errorf("name %q does not match %s", s.Name, nameRule)
	}
	if err := checkExecutable(s.Path); err != nil {
		return err
	}
	for i, arg := range s.Args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("argument %d %q contains a NUL byte", i+1, arg)
		}
	}
	for i, entry := range s.Env {
		if err := checkEnv(entry); err != nil {
			return fmt.Errorf("environment entry %d %w", i+1, err)
		}
	}
	if s.Dir != "" {
		if err := checkDir("working", s.Dir); err != nil {
			return err
		}
	}
	if len(s.Payload) > MaxPayload {
		return fmt.Errorf("%w: %d bytes", ErrPayloadTooLarge, len(s.Payload))
	}
	if err := s.Limits.validate(); err != nil {
		return err
	}
	return checkDir("log", s.LogDir)
}

func checkExecutable(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("path %q is not absolute", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("expected an executable file: %w", cause(err))
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("expected an executable file, found mode %v", info.Mode())
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return fmt.Errorf("expected an executable file, found mode %v: %w", info.Mode(), err)
	}
	return nil
}

// checkEnv never quotes an entry: environments carry secrets.
func checkEnv(entry string) error {
	if strings.IndexByte(entry, '=') < 1 {
		return errors.New("is not KEY=VALUE")
	}
	if strings.ContainsRune(entry, 0) {
		return errors.New("contains a NUL byte")
	}
	return nil
}

func checkDir(what, dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("%s directory %q: %w", what, dir, cause(err))
	}
	if !info.IsDir() {
		return fmt.Errorf("%s directory %q: %w", what, dir, unix.ENOTDIR)
	}
	return nil
}

// cause drops the operation and path from an error that names them elsewhere.
func cause(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// environ is what the child gets: each key once, as libc's getenv returns the
// first and people who append an override mean the last. A CASTNET_PROC in
// Spec.Env speaks of somebody else's descriptors, so ours replaces it.
func (s *Spec) environ() []string {
	entries := s.Env[:len(s.Env):len(s.Env)]
	announce := fmt.Sprintf("%s=%d,%d", EnvVar, payloadFD, lifelineFD)
	if s.Keep {
		announce += keptMark
	}
	if !s.NoProc {
		entries = append(entries, announce)
	}
	if s.marker != "" {
		entries = append(entries, s.marker)
	}
	last := make(map[string]int, len(entries))
	for i, entry := range entries {
		key, _, _ := strings.Cut(entry, "=")
		last[key] = i
	}
	env := make([]string, 0, len(last))
	for i, entry := range entries {
		if key, _, _ := strings.Cut(entry, "="); last[key] == i {
			env = append(env, entry)
		}
	}
	return env
}
