package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

const (
	module   = "github.com/castnet-io/castnet"
	detector = "github.com/sasha-s/go-deadlock"
	version  = "v0.3.9"
	// mutexes is the package of the overlay. It exists there only.
	mutexes = "internal/mutexes"
	// control is a package with a report: without it, the other reports would be missing, too.
	control = "./scripts/locks/testdata/inverted"
)

// Exit codes.
const (
	exitPassed = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reports, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "locks:", err)
		os.Exit(exitUsage)
	}
	if len(reports) > 0 {
		fmt.Println(strings.Join(reports, "\n"))
		os.Exit(exitFailed)
	}
	fmt.Println("locks: no two locks are taken in both orders")
	os.Exit(exitPassed)
}

// run tests packages and returns the reports of all processes.
func run(ctx context.Context, packages []string) ([]string, error) {
	if len(packages) == 0 {
		return nil, errors.New("want packages, such as ./actor")
	}
	dir, err := os.MkdirTemp("", "castnet-locks-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the folder for temporary files
	said := filepath.Join(dir, "said")
	if err := os.Mkdir(said, 0o700); err != nil {
		return nil, err
	}
	flags, err := overlay(ctx, dir, said)
	if err != nil {
		return nil, err
	}
	args := append([]string{"test", "-vet=off", "-count=1", "-timeout=15m", control}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags)
	out, err := cmd.CombinedOutput()
	if failed, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || failed.ExitCode() != 1) ||
		bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")) {
		return nil, fmt.Errorf("cannot run the tests: %w\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "ok") || strings.HasPrefix(line, "FAIL\t") {
			fmt.Print(line)
		}
	}
	return read(said)
}

// read returns the reports in a folder, but that of the control.
func read(said string) (all []string, err error) {
	controlled := false
	files, err := os.ReadDir(said)
	for _, f := range files {
		text, rerr := os.ReadFile(filepath.Join(said, f.Name()))
		err = errors.Join(err, rerr)
		switch {
		case bytes.Contains(text, []byte(filepath.Base(control)+".go")):
			controlled = true
		case len(text) > 0:
			all = append(all, string(text))
		}
	}
	if err == nil && !controlled {
		err = fmt.Errorf("want a report about %s: it has none", control)
	}
	return all, err
}

// overlay writes what the compiler reads instead of the repository's files, and returns flags for go.
func overlay(ctx context.Context, dir, said string) (flags string, err error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	put := func(path, text string) error {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[filepath.Join(root, path)] = to
		return os.WriteFile(to, []byte(text), 0o600)
	}
	err = put(mutexes+"/mutexes.go", fmt.Sprintf(recording, detector, said))
	err = errors.Join(err, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && isModule(path):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil || !usesMutex.Match(source) {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return put(name, withRecording(string(source)))
	}))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file, mod := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "go.mod")
	err = os.WriteFile(file, text, 0o600)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, rerr := os.ReadFile(name)
		err = errors.Join(err, rerr, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	if err != nil {
		return "", err
	}
	get := exec.CommandContext(ctx, "go", "get", "-modfile="+mod, detector+"@"+version)
	if out, err := get.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot get %s: %w\n%s", detector, err, out)
	}
	return "-overlay=" + file + " -modfile=" + mod, nil
}

// isModule reports whether a folder is a module of its own, or holds no source.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil || strings.HasPrefix(filepath.Base(dir), ".")
}

var (
	usesMutex = regexp.MustCompile(`\bsync\.(RW)?Mutex\b`)
	usesSync  = regexp.MustCompile(`\bsync\.`)
)

// withRecording is a source with recording mutexes.
func withRecording(source string) string {
	source = usesMutex.ReplaceAllString(source, "mutexes.${1}Mutex")
	path := fmt.Sprintf("%q", module+"/"+mutexes)
	single := strings.Replace(source, `import "sync"`, "import "+path, 1)
	if single != source {
		return single
	}
	if !usesSync.MatchString(source) {
		return strings.Replace(source, `"sync"`, path, 1)
	}
	return strings.Replace(source, `"sync"`, "\"sync\"\n\t"+path, 1)
}

// recording is the source of package mutexes.
const recording = `// Package mutexes has mutexes that record their order.
package mutexes

import (
	"os"
	"strconv"

	deadlock %q
)

type (
	Mutex   = deadlock.Mutex
	RWMutex = deadlock.RWMutex
)

func init() {
	deadlock.Opts.DeadlockTimeout = 0 // a handler may hold a lock for long on a busy machine
	deadlock.Opts.OnPotentialDeadlock = func() {}
	file, err := os.CreateTemp(%q, strconv.Itoa(os.Getpid())+"-*")
	if err == nil {
		deadlock.Opts.LogBuf = file
	}
}
`
