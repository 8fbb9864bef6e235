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
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
)

// Exit codes of the castnet commands.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	proc.Main(counting.Def()) // never returns in a launched process
	runtime.LockOSThread()    // the death signal of hostds follows the starting thread
	os.Exit(command(os.Args[1:]))
}

// command runs the program for a user and returns the exit code.
func command(args []string) int {
	s, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "wordcount: %v\n", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	defer stop()
	switch err := run(ctx, s, os.Stdout); {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "wordcount: interrupted")
		return exitInterrupted
	default:
		fmt.Fprintf(os.Stderr, "wordcount: %v\n", err)
		return exitFailed
	}
}

// settings are the parsed flags.
type settings struct {
	folder  string // absolute
	suffix  string
	binary  string        // hostd binary to start hosts with; "" = running hosts
	hosts   int           // number to start or to await
	perHost int           // procs on each host
	await   time.Duration // timeout for the hosts
	within  time.Duration // timeout for the count
}

// ownHosts is the default number of hostds for --hostd. Their labels are letters.
const ownHosts, maxOwnHosts = 2, 26

func parse(args []string, usage io.Writer) (settings, error) {
	var s settings
	fs := flag.NewFlagSet("wordcount", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&s.binary, "hostd", "", "start a NATS server and hosts of our own, with this hostd `binary`")
	fs.IntVar(&s.hosts, "hosts", 0, "wait for so many hosts; with --hostd, start so many (default 2)")
	fs.IntVar(&s.perHost, "procs", 4, "procs on each host")
	fs.StringVar(&s.suffix, "suffix", ".go", "count the files whose name ends in this")
	fs.DurationVar(&s.await, "await", 30*time.Second, "how long to wait for the hosts")
	fs.DurationVar(&s.within, "within", 10*time.Minute, "how long the counting may take")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(usage, "usage: wordcount [flags] [folder]\n\nCounts words on all hosts of a castnet, kills "+
			"a proc, and shows how that is noticed.\nThe folder is the Go sources of this machine unless one is "+
			"given.\n\n")
		fs.SetOutput(usage)
		fs.PrintDefaults()
	}
	if err != nil {
		return s, err
	}
	switch {
	case fs.NArg() > 1:
		return s, fmt.Errorf("%d folders: want one, after the flags", fs.NArg())
	case s.perHost < 1 || s.hosts < 0 || s.await <= 0 || s.within <= 0:
		return s, errors.New("--procs, --await and --within must be more than 0, and --hosts not negative")
	case s.binary != "" && s.hosts > maxOwnHosts:
		return s, fmt.Errorf("--hosts %d: want at most %d of our own", s.hosts, maxOwnHosts)
	}
	if s.binary != "" && s.hosts == 0 {
		s.hosts = ownHosts
	}
	s.folder, err = folder(fs.Arg(0))
	return s, err
}

// folder returns the given folder, or the Go source tree.
func folder(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("no folder given, and no Go sources found to count (go env GOROOT: %w)", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src"), nil
}
