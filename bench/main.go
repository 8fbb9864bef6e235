package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/internal/heapfloor"
)

func main() {
	proc.Main(actors())
	if name := os.Getenv(roleEnv); name != "" {
		heapfloor.Start(os.Getenv) // of all peers, as in a proc
		life := func() int { return play(name, os.Stdin, os.Stdout) }
		os.Exit(profiled(os.Getenv(profilesEnv), name, life))
	}
	os.Exit(command())
}

// command is the program as its user started it.
func command() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	s, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 2
	}
	if s.profiles != "" {
		os.Setenv(profilesEnv, s.profiles) // children inherit it
	}
	return profiled(s.profiles, "caller", func() int {
		if err := run(ctx, s, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			return 1
		}
		return 0
	})
}

// settings says what to measure, and how often.
type settings struct {
	only     *regexp.Regexp
	repeats  int
	samples  int
	shrink   int
	profiles string
}

// parse reads the command line. An invalid one gives an error; usage goes to help.
func parse(args []string, help io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(help)
	only := flags.String("only", "", "measure the rows whose name matches this `regexp`; empty: all")
	flags.IntVar(&s.repeats, "repeats", 5, "repeats of each side of a row")
	flags.IntVar(&s.samples, "samples", 2000, "messages in one repeat of a latency row")
	flags.IntVar(&s.shrink, "shrink", 1,
		"divide the work of rows that -samples says nothing about by this, to try them out")
	flags.StringVar(&s.profiles, "profiles", "", "leave CPU profiles of castnet's processes in this `directory`")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q: rows are chosen by -only", flags.Arg(0))
	}
	if s.repeats < 1 || s.samples < 1 || s.shrink < 1 {
		return s, fmt.Errorf("-repeats %d -samples %d -shrink %d: want at least 1 of each", s.repeats,
			s.samples, s.shrink)
	}
	if s.profiles != "" {
		if d, err := os.Stat(s.profiles); err != nil || !d.IsDir() {
			return s, fmt.Errorf("-profiles %q: want a directory", s.profiles)
		}
	}
	var err error
	s.only, err = regexp.Compile(*only)
	if err != nil {
		return s, fmt.Errorf("-only: %w", err)
	}
	if !s.matches(rowNames()) {
		return s, fmt.Errorf("-only %q matches no row; there are %s", *only, strings.Join(rowNames(), ", "))
	}
	return s, nil
}

// matches reports whether one of the names was asked for.
func (s settings) matches(names []string) bool {
	for _, name := range names {
		if s.only.MatchString(name) {
			return true
		}
	}
	return false
}
