package launch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// EnvVar announces the inherited descriptors to a child: "PAYLOAD,LIFELINE", followed by
	// ",keep" for a kept child.
	EnvVar = "CASTNET_PROC"

	// MaxPayload is the maximum size of a payload.
	MaxPayload = 1 << 20

	keptSuffix = ",keep"

	stderrFD   = 2
	payloadFD  = 3
	lifelineFD = 4
)

// Spec describes a child. It takes nothing from the launcher's process: an empty Env is an empty
// environment. The caller must not change Payload afterwards.
type Spec struct {
	Name      string   // prefix of the log files; named in errors
	Path      string   // absolute path of the executable; no search, no shell
	Arg0      string   // name of the program; "" = Path
	Args      []string // arguments after it
	Env       []string // KEY=VALUE; the last of equal keys counts
	Dir       string   // working directory; "" = the launcher's
	Payload   []byte   // returned by Inherited.Payload
	LogDir    string   // existing directory for NAME.stdout.log, NAME.stderr.log
	LogCap    int64    // bytes of each log kept at least, see logfile.File.Cap
	Limits    Limits   // for the child and its descendants
	Keep      bool     // outlives its launcher; needs Options.StateDir
	NoInherit bool     // hide payload and lifeline: FromEnv returns false in it

	lifeline    string         // path of a kept child's FIFO
	marker      string         // environment entry that marks orphans; "" = none
	deathSignal syscall.Signal // signal at the launcher's end; 0 = none
	user        *User          // nil: that of this process
	process     ProcessLimits  // of each process
}

// nameRule is compiled by the first launch, because every proc has this package.
var nameRule = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$`)
})

// validate finds errors before anything is created (LCH-3). The exec may still fail, because a path
// can change meanwhile.
func (s *Spec) validate() error {
	if !nameRule().MatchString(s.Name) {
		return fmt.Errorf("name %q does not match %s", s.Name, nameRule())
	}
	if err := checkExecutable(s.Path); err != nil {
		return err
	}
	if strings.ContainsRune(s.Arg0, 0) {
		return errors.New("argument 0 contains a NUL byte")
	}
	for i, arg := range s.Args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("argument %d contains a NUL byte", i+1) // it may be a secret
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
		return fmt.Errorf("expected an executable file: %w", trimPathError(err))
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("expected an executable file, found mode %v", info.Mode())
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return fmt.Errorf("expected an executable file, found mode %v: %w", info.Mode(), err)
	}
	return nil
}

// checkEnv checks an entry. Errors never quote it, because environments carry secrets.
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
		return fmt.Errorf("%s directory %q: %w", what, dir, trimPathError(err))
	}
	if !info.IsDir() {
		return fmt.Errorf("%s directory %q: %w", what, dir, unix.ENOTDIR)
	}
	return nil
}

// trimPathError removes operation and path from an error, because its context names them.
func trimPathError(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// argv returns the child's arguments with the program's name.
func (s *Spec) argv() []string { return append([]string{cmp.Or(s.Arg0, s.Path)}, s.Args...) }

// environ returns the child's environment with unique keys: the last entry wins, since libc's
// getenv returns the first. Our CASTNET_PROC replaces one in Spec.Env with foreign descriptors.
func (s *Spec) environ() []string {
	entries := s.Env[:len(s.Env):len(s.Env)]
	announce := fmt.Sprintf("%s=%d,%d", EnvVar, payloadFD, lifelineFD)
	if s.Keep {
		announce += keptSuffix
	}
	if !s.NoInherit {
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
