package cli_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func partial(asked int, reasons ...error) error {
	e := &cast.CoverageError{Coverage: cast.Coverage{Asked: asked, Answered: asked - len(reasons)}}
	for i, r := range reasons {
		e.Coverage.Failed = append(e.Coverage.Failed, cast.Failure{Rank: i, Err: r})
	}
	return e
}

func TestExitCode_classifiesErrors_CLI5(t *testing.T) {
	_, badExtent := shape.ParseExtent("gpu=x")
	for name, row := range map[string]struct {
		err  error
		code int
	}{
		"none":                   {nil, 0},
		"any other":              {errors.New("x"), 1},
		"a handler's":            {&actor.Error{Code: actor.CodeHandler}, 1},
		"a proc's death":         {actor.ErrProcDead, 1},
		"typed wrongly":          {cli.Usagef("x"), 2},
		"a bad label":            {subjects.CheckLabel("label", "a.b"), 2},
		"a bad extent":           {badExtent, 2},
		"a message not taken":    {actor.ErrBadMessage, 2},
		"no such mesh":           {&mesh.NotFoundError{}, 3},
		"no such actor":          {actor.ErrNoActor, 3},
		"no such endpoint":       {actor.ErrNoEndpoint, 3},
		"no such proc":           {actor.ErrNoProc, 3},
		"no listener":            {bus.ErrNoResponders, 3},
		"some ranks":             {partial(3, actor.ErrNoActor), 4},
		"all ranks, two reasons": {partial(2, actor.ErrNoActor, actor.ErrFailed), 4},
		"all ranks failed":       {partial(1, actor.ErrFailed), 4},
		"all lack the endpoint":  {partial(2, actor.ErrNoEndpoint, actor.ErrNoEndpoint), 3},
		"all refuse the message": {partial(1, actor.ErrBadMessage), 2},
		"no answer in time":      {actor.ErrDeadline, 5},
		"a deadline":             {context.DeadlineExceeded, 5},
		"no bus":                 {&bus.ConnectError{}, 6},
		"no bus in time":         {&bus.ConnectError{Err: context.DeadlineExceeded}, 6},
		"no permission":          {&bus.PermissionError{}, 6},
		"a broken bus":           {bus.ErrClosed, 6},
		"Ctrl-C":                 {context.Canceled, 130},
		"an explicit code":       {cli.WithCode(6, actor.ErrNoActor), 6},
	} {
		require.Equal(t, row.code, cli.ExitCode(row.err), name)
		if row.err != nil {
			require.Equal(t, row.code, cli.ExitCode(fmt.Errorf("wrapped: %w", row.err)), name)
		}
	}
	require.NoError(t, cli.WithCode(6, nil))
}

func TestExecute_printsAnErrorOnceWithAHelpHint_CLI5(t *testing.T) {
	run := func(args ...string) (int, string) {
		root := &cobra.Command{Use: "tool"}
		var b bool
		var d time.Duration
		sub := &cobra.Command{Use: "do THING", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				if args[0] == "bad" {
					return cli.Usagef("THING %q: want a good one", args[0])
				}
				return map[string]error{"lost": actor.ErrNoActor}[args[0]]
			}}
		sub.Flags().BoolVar(&b, "now", false, "")
		sub.Flags().DurationVar(&d, "for", 0, "")
		sub.Flags().Int("times", 0, "")
		root.AddCommand(sub)
		root.SetArgs(args)
		root.SetOut(&strings.Builder{})
		var stderr strings.Builder
		return cli.Execute(t.Context(), root, &stderr), stderr.String()
	}
	for _, row := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"do", "it"}, 0, ""},
		{[]string{"do", "lost"}, 3, "tool: no such actor\n"},
		{[]string{"do", "bad"}, 2, "tool: THING \"bad\": want a good one\n"},
		{[]string{"do"}, 2, "tool: accepts 1 arg(s), received 0\nusage: tool do THING [flags] (see tool do " +
			"--help)\n"},
		{[]string{"do", "--fast", "it"}, 2,
			"tool: unknown flag: --fast\nusage: tool do THING [flags] (see tool do --help)\n"},
		{[]string{"do", "--now=soon", "it"}, 2,
			"tool: invalid argument \"soon\" for --now: want true or false\nusage: tool do THING [flags] (see tool " +
				"do --help)\n"},
		{[]string{"do", "--for", "5", "it"}, 2,
			"tool: invalid argument \"5\" for --for: want a duration such as 500ms or 30s\nusage: tool do THING " +
				"[flags] (see tool do --help)\n"},
		{[]string{"do", "--times", "x", "it"}, 2,
			"tool: invalid argument \"x\" for --times: want a whole number\nusage: tool do THING [flags] (see tool " +
				"do --help)\n"},
		{[]string{"do", "--times", "1e30", "it"}, 2,
			"tool: invalid argument \"1e30\" for --times: want a whole number\nusage: tool do THING [flags] (see " +
				"tool do --help)\n"},
		{[]string{"do", "--times", "99999999999999999999", "it"}, 2,
			"tool: invalid argument \"99999999999999999999\" for --times: want a whole number of 64 bits\nusage: " +
				"tool do THING [flags] (see tool do --help)\n"},
		{[]string{"undo"}, 2, "tool: unknown command \"undo\" for \"tool\" Did you mean this? do\nusage: tool " +
			"[flags] (see tool --help)\n"},
	} {
		code, stderr := run(row.args...)
		require.Equal(t, row.code, code, row.args)
		require.Equal(t, row.stderr, stderr, row.args)
	}
}

// An unset variable of a script must not choose the default, such as all hosts.
func TestExecute_refusesAnEmptyValueOfAFlag(t *testing.T) {
	run := func(args ...string) (code int, stderr string, entered bool) {
		root := &cobra.Command{Use: "tool"}
		root.PersistentFlags().String("server", "", "the server's `URL`")
		sub := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { entered = true; return nil }}
		sub.Flags().String("plain", "default", "")
		sub.Flags().StringArray("file", nil, "a `FILE`")
		sub.Flags().StringSlice("users", nil, "the `USER`s")
		sub.Flags().String("actor", "counter", "`TYPE` of the actor")
		sub.Flags().StringArray("arg", nil, "an `ARGUMENT`")
		cli.AllowEmpty(sub.Flags(), "actor", "arg")
		root.AddCommand(sub)
		root.SetArgs(args)
		root.SetOut(&strings.Builder{})
		var errs strings.Builder
		code = cli.Execute(t.Context(), root, &errs)
		return code, errs.String(), entered
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"do", "--server", ""}, "--server: want URL, or no --server"},
		{[]string{"--server=", "do"}, "--server: want URL, or no --server"},
		{[]string{"do", "--plain="}, "--plain: want string, or no --plain"},
		{[]string{"do", "--file", "a", "--file", ""}, "--file: want FILE, or no --file"},
		{[]string{"do", "--users", ""}, "--users: want USER, or no --users"},
		{[]string{"do", "--users", "a,,b"}, "--users: want USER, or no --users"},
	} {
		code, stderr, entered := run(row.args...)
		require.Equal(t, cli.ExitUsage, code, row.args)
		require.Contains(t, stderr, `tool: invalid argument "" for `+row.want+"\nusage: tool do ", row.args)
		require.False(t, entered, row.args)
	}
	for _, args := range [][]string{{"do"}, {"do", "--actor", "", "--arg", "", "--server", "x", "--users", "a"}} {
		code, stderr, entered := run(args...)
		require.Equal(t, 0, code, stderr)
		require.True(t, entered)
	}
}
