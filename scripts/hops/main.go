package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/subjects"
)

const (
	warmUp = 500
	rounds = 20
)

// idEnv has the ID of the process that answers, and is set in that process only.
const idEnv = "HOPS_ID"

var (
	echoType = actor.NewType[*struct{}, actor.None]("echo")
	echo     = actor.NewEndpoint[*struct{}, string, string]("echo")
)

func main() {
	ctx := context.Background()
	var err error
	if id := os.Getenv(idEnv); id != "" {
		err = answer(ctx, id)
	} else {
		err = call(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "hops: %v\n", err)
		os.Exit(1)
	}
}

// newProc starts a proc on the server whose address is in the environment.
func newProc(ctx context.Context, id subjects.HostID) (*actor.Proc, error) {
	b, err := bus.Open(ctx, bus.Options{URL: os.Getenv("HOPS_URL")})
	if err != nil {
		return nil, err
	}
	r, err := actor.NewRegistry(echoType.Define(
		func(*actor.Context, actor.None) (*struct{}, error) { return new(struct{}), nil },
		echo.Handle(func(_ *struct{}, _ *actor.Context, s string) (string, error) { return s, nil })))
	if err != nil {
		return nil, err
	}
	return actor.NewProc(ctx, actor.Options{ID: id.Proc(), Bus: b, Registry: r})
}

// answer runs the actor, and counts: an empty line of input starts a count, another one names the
// folder for its result.
func answer(ctx context.Context, id string) error {
	host, err := subjects.ParseHostID(id)
	if err != nil {
		return err
	}
	p, err := newProc(ctx, host)
	if err != nil {
		return err
	}
	if _, err := p.Spawn(ctx, actor.SpawnSpec{Type: "echo", Name: "echo", Params: actor.None{}}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); ; {
		fmt.Println()
		if !lines.Scan() {
			return lines.Err()
		}
		if err := count(lines.Text()); err != nil {
			return err
		}
	}
}

// count sets all counters to zero, or writes them to a folder.
func count(dir string) error {
	if dir == "" {
		return coverage.ClearCounters()
	}
	return errors.Join(os.MkdirAll(dir, 0o700), coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
}

// callee is the process that answers.
type callee struct {
	in  io.WriteCloser
	out *bufio.Scanner
	cmd *exec.Cmd
}

func startCallee(ctx context.Context, id subjects.HostID) (*callee, error) {
	c := &callee{cmd: exec.CommandContext(ctx, os.Args[0])}
	c.cmd.Env = append(os.Environ(), idEnv+"="+id.String())
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	c.in, err = c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.out.Scan()
	return c, nil
}

// count is count in that process.
func (c *callee) count(dir string) error {
	_, err := fmt.Fprintln(c.in, dir)
	if err == nil && !c.out.Scan() {
		err = errors.New("the other process has ended")
	}
	return err
}

func call(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "hops")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	srv, err := embed.Start(ctx, embed.Options{})
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	if err := os.Setenv("HOPS_URL", srv.URL()); err != nil {
		return err
	}
	own, err1 := subjects.NewHostID("caller")
	other, err2 := subjects.NewHostID("callee")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	p, err := newProc(ctx, own)
	if err != nil {
		return err
	}
	c, err := startCallee(ctx, other)
	if err != nil {
		return err
	}
	ref := actor.RefOf[*struct{}](other.Proc().Actor("echo")).Via(p)
	for range warmUp {
		if _, err := echo.Call(ctx, ref, "warm"); err != nil {
			return err
		}
	}
	caller, callee := map[string]int{}, map[string]int{}
	for i := range rounds {
		here, there := filepath.Join(dir, fmt.Sprint("caller", i)), filepath.Join(dir, fmt.Sprint("callee", i))
		if err := errors.Join(c.count(""), count("")); err != nil {
			return err
		}
		_, err := echo.Call(ctx, ref, "counted")
		err = errors.Join(err, count(here), c.count(there), add(ctx, caller, here), add(ctx, callee, there))
		if err != nil {
			return err
		}
	}
	report(os.Stdout, "caller", caller)
	report(os.Stdout, "callee", callee)
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// add counts the functions that ran, of the counters in a folder.
func add(ctx context.Context, ran map[string]int, dir string) error {
	list, err := exec.CommandContext(ctx, "go", "tool", "covdata", "func", "-i="+dir).Output()
	if err != nil {
		return fmt.Errorf("cannot read counters: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line) // file:line: name percentage
		if len(f) == 3 && f[0] != "total" && f[2] != "0.0%" && !strings.Contains(f[0], "/scripts/") {
			ran[strings.TrimPrefix(f[0], "github.com/castnet-io/castnet/")+" "+f[1]]++
		}
	}
	return nil
}

// report prints the functions that ran in all rounds, by file.
func report(w io.Writer, side string, ran map[string]int) {
	maps.DeleteFunc(ran, func(_ string, n int) bool { return n < rounds })
	all := slices.Sorted(maps.Keys(ran))
	_, _ = fmt.Fprintf(w, "%s: %d functions\n\t%s\n", side, len(all), strings.Join(all, "\n\t"))
}
