package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// peersDir is where the peers' modules are, seen from the folder of this program's source.
	peersDir = "peers"
	// buildPatience bounds the build of a peer, the download of its modules included.
	buildPatience = 10 * time.Minute
)

// builds makes the programs of peers, each once in a run, also when that fails.
type builds struct {
	notes io.Writer
	dir   string // temporary; "" until there is something to build
	built map[string]build
}

type build struct {
	program string
	err     error
}

func newBuilds(notes io.Writer) *builds { return &builds{notes: notes, built: map[string]build{}} }

// program is the path of a peer's program.
func (b *builds) program(ctx context.Context, p peer) (string, error) {
	done, ok := b.built[p.dir]
	if !ok {
		done.program, done.err = b.build(ctx, p)
		if done.err != nil {
			done.err = fmt.Errorf("build peer %s in %s: %w", p, filepath.Join(peersDir, p.dir), done.err)
		}
		b.built[p.dir] = done
	}
	return done.program, done.err
}

func (b *builds) build(ctx context.Context, p peer) (string, error) {
	if _, err := os.Stat(filepath.Join(peersDir, p.dir, "go.mod")); err != nil {
		return "", fmt.Errorf("%w: run the benchmarks in the folder of their source", err)
	}
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "castnet-bench-")
		if err != nil {
			return "", err
		}
		b.dir = dir
	}
	fmt.Fprintf(b.notes, "building %s (minutes, when its modules are not here yet)\n", p)
	ctx, cancel := context.WithTimeout(ctx, buildPatience)
	defer cancel()
	program := filepath.Join(b.dir, p.dir)
	cmd := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(peersDir, p.dir), "-o", program, ".")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	// A group of its own, so that the compilers end with the go command (BENCH-5).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return program, nil
}

// close removes what was built.
func (b *builds) close() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}
