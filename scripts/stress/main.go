package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/castnet-io/castnet/internal/fanout"
)

// Exit codes.
const (
	exitPassed      = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout))
}

// settings are the flags.
type settings struct {
	n, busy  int
	p        int // packages at once
	parallel int // tests of a package at once; 0: as many as it chooses
	race     bool
	run      string
	timeout  time.Duration
	packages []string
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	fs := flag.NewFlagSet("stress", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.IntVar(&s.n, "n", 100, "how often the tests of each package run")
	fs.IntVar(&s.busy, "busy", 0, "how many loops keep processors busy meanwhile")
	fs.IntVar(&s.p, "p", 1, "how many packages run at once")
	fs.IntVar(&s.parallel, "parallel", 0,
		"how many parallel tests of a package run at once; 0: as many as it chooses")
	fs.BoolVar(&s.race, "race", false, "run under the race detector")
	fs.StringVar(&s.run, "run", ".", "run the tests that match this `regexp`")
	fs.DurationVar(&s.timeout, "timeout", 10*time.Minute, "how long one run may take")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	if s.packages = fs.Args(); len(s.packages) == 0 {
		s.packages = []string{"."}
	}
	if s.n < 1 || s.p < 1 || s.timeout <= 0 || s.busy < 0 || s.parallel < 0 {
		return s, errors.New("want -n, -p and -timeout above 0, and -busy and -parallel not below it")
	}
	return s, nil
}

func command(ctx context.Context, args []string, out io.Writer) int {
	s, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return exitPassed
	}
	var all []*series
	if err == nil {
		all, err = stress(ctx, s, out)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(out, "stress: %v\n", err)
		return exitUsage
	}
	failed := report(out, all)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(out, "stress: interrupted")
		return exitInterrupted
	case failed:
		return exitFailed
	}
	return exitPassed
}

// series is the runs of one package.
type series struct {
	name, dir string // import path, and where its tests run
	program   string
	runs      int
	failed    int
	tests     map[string]int // failed runs by test
	kept      string         // the folder with their output, once there is any
}

func stress(ctx context.Context, s settings, out io.Writer) ([]*series, error) {
	all, err := find(ctx, s.packages)
	if err != nil {
		return nil, err
	}
	bin, err := os.MkdirTemp("", "castnet-stress-bin-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(bin) }() // in the folder for temporary files
	for i, p := range all {
		fmt.Fprintf(out, "compiling the tests of %s\n", p.name)
		p.program = filepath.Join(bin, fmt.Sprintf("%d.test", i))
		if err := p.compile(ctx, s.race); err != nil {
			return nil, err
		}
	}
	defer keepBusy(s.busy)()
	begun := time.Now()
	failed := 0 // rounds
	for round := 1; round <= s.n; round++ {
		passed, err := runRound(ctx, s, all, out)
		if err != nil {
			return all, err
		}
		if !passed {
			failed++
		}
		if round%max(s.n/10, 1) == 0 {
			each := (time.Since(begun) / time.Duration(round)).Round(time.Millisecond)
			fmt.Fprintf(out, "%d of %d rounds, %d failed, %s each\n", round, s.n, failed, each)
		}
	}
	return all, nil
}

// runRound runs the tests of each package once, s.p packages at once, and reports whether all
// passed.
func runRound(ctx context.Context, s settings, all []*series, out io.Writer) (passed bool, err error) {
	lines := &lockedWriter{w: out}
	before := failures(all)
	errs := make([]error, len(all))
	fanout.Each(s.p, all, func(i int, p *series) { errs[i] = p.runOnce(ctx, s, lines) })
	return failures(all) == before, errors.Join(errs...)
}

// find lists the packages that have tests.
func find(ctx context.Context, patterns []string) (all []*series, err error) {
	const format = "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}"
	said, err := output(exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, patterns...)...))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(said) {
		if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			all = append(all, &series{name: name, dir: dir, tests: map[string]int{}})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no package with tests", strings.Join(patterns, " "))
	}
	return all, nil
}

func (p *series) compile(ctx context.Context, race bool) error {
	args := []string{"test", "-c", "-o", p.program}
	if race {
		args = append(args, "-race")
	}
	_, err := output(exec.CommandContext(ctx, "go", append(args, p.name)...))
	return err
}

// output runs a go command; its error has the command's output.
func output(cmd *exec.Cmd) (string, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return string(out), nil
}

// failures counts the failed runs of all packages.
func failures(all []*series) (n int) {
	for _, p := range all {
		n += p.failed
	}
	return n
}

// lockedWriter lets several packages write lines at once.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// keepBusy starts loops that take a processor each, and returns what ends them. They are threads of
// this process, so none outlives it.
func keepBusy(n int) (end func()) {
	before := runtime.GOMAXPROCS(n + 2)
	var over atomic.Bool
	var loops sync.WaitGroup
	for range n {
		loops.Go(func() {
			for !over.Load() {
			}
		})
	}
	return func() {
		over.Store(true)
		loops.Wait()
		runtime.GOMAXPROCS(before)
	}
}

// runOnce runs the tests once. It fails with the context, and when the output of a run cannot be
// kept.
func (p *series) runOnce(ctx context.Context, s settings, out io.Writer) error {
	said, err := p.execute(ctx, s)
	if ctx.Err() != nil {
		return ctx.Err() // how the run ended says nothing
	}
	p.runs++
	if err != nil {
		return p.keep(said, err, out)
	}
	return nil
}

// execute runs the tests in a process group of their own, which ends with the context.
func (p *series) execute(ctx context.Context, s settings) ([]byte, error) {
	args := []string{"-test.run", s.run, "-test.timeout", s.timeout.String()}
	if s.parallel > 0 {
		args = append(args, "-test.parallel", strconv.Itoa(s.parallel))
	}
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second // of a process that the tests have left behind with their output
	return cmd.CombinedOutput()
}

// keep counts a failed run, and stores its output.
func (p *series) keep(said []byte, cause error, out io.Writer) (err error) {
	p.failed++
	names := failedTests(string(said))
	if len(names) == 0 {
		names = []string{"no test, but the process: " + cause.Error()}
	}
	for _, name := range names {
		p.tests[name]++
	}
	if p.kept == "" {
		if p.kept, err = os.MkdirTemp("", "castnet-stress-"); err != nil {
			return err
		}
	}
	path := filepath.Join(p.kept, fmt.Sprintf("run-%d.txt", p.runs))
	fmt.Fprintf(out, "%s: run %d failed: %s: %s\n", p.name, p.runs, strings.Join(names, ", "), path)
	return os.WriteFile(path, said, 0o600)
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: ([^\s/]+)`)
	timedOut   = regexp.MustCompile(
		`(?m)^panic: test timed out after .*\n(?:\trunning tests:\n((?:\t\t.*\n)+))?`)
	stillRuns = regexp.MustCompile(`(?m)^\t\t([^\s/]+)`)
)

// failedTests are the tests that an output says have failed, or that ran when the time was over.
// Each is named once, and without its subtests.
func failedTests(said string) (names []string) {
	for _, m := range failedTest.FindAllStringSubmatch(said, -1) {
		names = append(names, m[1])
	}
	if m := timedOut.FindStringSubmatch(said); m != nil {
		for _, running := range stillRuns.FindAllStringSubmatch(m[1], -1) {
			names = append(names, running[1]+" (timed out)")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// report prints a row for each package, and one for each test that failed. It reports whether any
// did.
func report(out io.Writer, all []*series) (failed bool) {
	if len(all) == 0 {
		return false
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nPACKAGE OR TEST\tRUNS\tFAILED\tPER THOUSAND")
	row := func(name string, runs, failed int) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%.1f\n", name, runs, failed, 1000*float64(failed)/float64(max(runs, 1)))
	}
	var kept []string
	for _, p := range all {
		row(p.name, p.runs, p.failed)
		for _, name := range sorted(p.tests) {
			row("  "+name, p.runs, p.tests[name])
		}
		if p.failed > 0 {
			failed = true
			kept = append(kept, p.kept)
		}
	}
	_ = table.Flush() // the report goes to a closed output
	for _, dir := range kept {
		fmt.Fprintf(out, "what failed runs said: %s\n", dir)
	}
	return failed
}

// sorted are the names, those that failed most first.
func sorted(tests map[string]int) (names []string) {
	for name := range tests {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if tests[a] != tests[b] {
			return tests[b] - tests[a]
		}
		return strings.Compare(a, b)
	})
	return names
}
