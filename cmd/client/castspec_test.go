package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
)

// specOf reads a command line.
func specOf(args ...string) (castSpec, error) {
	s := &castSpec{}
	c := &cobra.Command{Use: "cast", SilenceErrors: true, SilenceUsage: true, RunE: func(c *cobra.Command, args []string) error {
		return s.parse(c, args, time.Minute)
	}}
	s.flags(c)
	c.SetArgs(append([]string{"demo", "counter", "add", "1"}, args...))
	err := c.Execute()
	return *s, err
}

func TestCastSpec_isWhatTheFlagsSay(t *testing.T) {
	for args, want := range map[string]castSpec{
		"":                                       {collect: "stream"},
		"--reduce sum":                           {collect: "reduce", reducer: "sum"},
		"--collect reduce --reduce top(3)":       {collect: "reduce", reducer: "top(3)"},
		"--collect post":                         {collect: "post"},
		"--batch 8 --pause 5s --canary":          {collect: "stream", throttle: cast.Throttle{Batch: 8, Pause: 5 * time.Second, Canary: true}, throttled: []string{"batch", "pause", "canary"}},
		"--one-per host --stop-after 3":          {collect: "stream", throttle: cast.Throttle{OnePer: "host", StopAfter: 3}, throttled: []string{"one-per", "stop-after"}},
		"--limit 12.5% --seed 7 --dry-run":       {collect: "stream", throttle: cast.Throttle{Percent: 12.5, Seed: 7}, dryRun: true, throttled: []string{"limit"}},
		"--collect choose --nats-cmd":            {collect: "choose", natsCmd: true},
		"--limit 100% --collect gather":          {collect: "gather", throttle: cast.Throttle{Percent: 100}, throttled: []string{"limit"}},
		"--seed 18446744073709551615 --limit 1%": {collect: "stream", throttle: cast.Throttle{Percent: 1, Seed: 1<<64 - 1}, throttled: []string{"limit"}},
	} {
		got, err := specOf(strings.Fields(args)...)
		require.NoError(t, err, args)
		got.question = question{}
		want.throttle.Timeout = time.Minute
		if want.throttled == nil {
			want.throttled = []string{}
		}
		require.Equal(t, want, got, args)
		require.NoError(t, got.throttle.Err(), args)
	}
}

func TestCastSpec_namesWhatContradictsItself(t *testing.T) {
	for args, want := range map[string]string{
		"--reduce sum --collect gather": "--collect gather and --reduce sum contradict each other: want --collect reduce, or only one of them",
		"--collect reduce":              "--collect reduce: want --reduce with the name of a reducer, too, such as --reduce sum",
		"--reduce= ":                    `--reduce "": want the name of a reducer, such as sum`,
		"--collect post --batch 2":      "--batch with --collect post: want stream, gather or reduce, which wait for the answers of many",
		"--collect choose --limit 10%":  "--limit with --collect choose: want stream, gather or reduce",
		"--pause 5s":                    "--pause 5s: want --batch, --one-per or --canary, too: it is between batches",
		"--stop-after 2":                "--stop-after 2: want --batch, --one-per or --canary, too",
		"--seed 7":                      "--seed 7: want --limit, too, such as --limit 10%: the seed draws its ranks",
		"--dry-run --nats-cmd":          "want one of --dry-run and --nats-cmd, got both",
		"--nats-cmd --canary":           "--canary has no equivalent in a nats command: gateways ask all ranks at once; want --nats-cmd without it",
	} {
		_, err := specOf(strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err), args)
	}
}

func TestCastSpec_refusesValuesBeforeAnythingIsSent(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"--collect table", `invalid argument "table" for "--collect" flag: want stream, gather, reduce, post or choose`},
		{"--batch 0", `invalid argument "0" for "--batch" flag: want a whole number, 1 or more`},
		{"--batch x", `"x" for "--batch" flag: want a whole number, 1 or more`},
		{"--batch 99999999999999999999", `"--batch" flag: want a whole number`},
		{"--stop-after -1", `"-1" for "--stop-after" flag: want a whole number, 1 or more`},
		{"--pause 5", `"5" for "--pause" flag: want a duration of more than 0, such as 500ms or 5s`},
		{"--pause -1s", `"-1s" for "--pause" flag: want a duration of more than 0`},
		{"--one-per g.pu", `"g.pu" for "--one-per" flag: dimension`},
		{"--limit 10", `"10" for "--limit" flag: want a percentage of more than 0% and at most 100%, such as 10%`},
		{"--limit 0%", `"0%" for "--limit" flag: want a percentage`},
		{"--limit 101%", `"101%" for "--limit" flag: want a percentage`},
		{"--limit NaN%", `"NaN%" for "--limit" flag: want a percentage`},
		{"--seed -1", `"-1" for "--seed" flag: want a whole number from 0 to 2^64-1`},
		{"--seed 7.5", `"7.5" for "--seed" flag: want a whole number`},
		{"--canary=maybe", `"maybe" for "--canary" flag`},
	} {
		_, err := specOf(strings.Fields(row.args)...)
		require.ErrorContains(t, err, row.want, row.args)
	}
}
