package casting

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
)

// specOf reads a command line.
func specOf(args ...string) (Spec, error) {
	s := &Spec{}
	c := &cobra.Command{Use: "cast", SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, args []string) error {
			return s.Parse(c, args, time.Minute)
		}}
	s.Register(c)
	c.SetArgs(append([]string{"demo", "counter", "add", "1"}, args...))
	err := c.Execute()
	return *s, err
}

func TestCastSpec_reflectsTheFlags(t *testing.T) {
	for args, want := range map[string]Spec{
		"":                                 {collect: "stream"},
		"--reduce sum":                     {collect: "reduce", reducer: "sum"},
		"--collect reduce --reduce top(3)": {collect: "reduce", reducer: "top(3)"},
		"--collect send":                   {collect: "send"},
		"--batch-size 8 --batch-delay 5s --canary": {collect: "stream",
			throttle:  cast.Throttle{BatchSize: 8, BatchDelay: 5 * time.Second, Canary: true},
			throttled: []string{"batch-size", "batch-delay", "canary"}},
		"--one-per host --max-failures 3": {collect: "stream",
			throttle: cast.Throttle{OnePer: "host", MaxFailures: 3}, throttled: []string{"one-per", "max-failures"}},
		"--sample 12.5% --seed 7 --dry-run": {collect: "stream",
			throttle: cast.Throttle{SamplePercent: 12.5, Seed: 7}, dryRun: true, throttled: []string{"sample"}},
		"--collect choose --print-nats": {collect: "choose", NatsCmd: true},
		"--sample 100% --collect gather": {collect: "gather", throttle: cast.Throttle{SamplePercent: 100},
			throttled: []string{"sample"}},
		"--seed 18446744073709551615 --sample 1%": {collect: "stream",
			throttle: cast.Throttle{SamplePercent: 1, Seed: 1<<64 - 1}, throttled: []string{"sample"}},
	} {
		got, err := specOf(strings.Fields(args)...)
		require.NoError(t, err, args)
		got.Request = target.Request{}
		want.throttle.Timeout = time.Minute
		if want.throttled == nil {
			want.throttled = []string{}
		}
		require.Equal(t, want, got, args)
		require.NoError(t, got.throttle.Err(), args)
	}
}

func TestCastSpec_namesContradictoryFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--reduce sum --collect gather": "--collect gather and --reduce sum contradict each other: want " +
			"--collect reduce, or only one of them",
		"--collect reduce": "--collect reduce: want --reduce with the name of a reducer, too, such " +
			"as --reduce sum",
		"--reduce= ": `--reduce "": want the name of a reducer, such as sum`,
		"--collect send --batch-size 2": "--batch-size with --collect send: want stream, gather or reduce, " +
			"which wait for the answers of many",
		"--collect choose --sample 10%": "--sample with --collect choose: want stream, gather or reduce",
		"--batch-delay 5s": "--batch-delay 5s: want --batch-size, --one-per or --canary, too: it " +
			"is between batches",
		"--max-failures 2": "--max-failures 2: want --batch-size, --one-per or --canary, too",
		"--seed 7": "--seed 7: want --sample, too, such as --sample 10%: the seed draws " +
			"its ranks",
		"--dry-run --print-nats": "want one of --dry-run and --print-nats, got both",
		"--print-nats --canary": "--canary has no equivalent in a nats command: gateways ask all ranks " +
			"at once; want --print-nats without it",
	} {
		_, err := specOf(strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err), args)
	}
}

func TestCastSpec_refusesInvalidValuesBeforeSending(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"--collect table",
			`invalid argument "table" for "--collect" flag: want stream, gather, reduce, send or choose`},
		{"--batch-size 0", `invalid argument "0" for "--batch-size" flag: want a whole number, 1 or more`},
		{"--batch-size x", `"x" for "--batch-size" flag: want a whole number, 1 or more`},
		{"--batch-size 99999999999999999999", `"--batch-size" flag: want a whole number`},
		{"--max-failures -1", `"-1" for "--max-failures" flag: want a whole number, 1 or more`},
		{"--batch-delay 5", `"5" for "--batch-delay" flag: want a duration of more than 0, such as 500ms or 5s`},
		{"--batch-delay -1s", `"-1s" for "--batch-delay" flag: want a duration of more than 0`},
		{"--one-per g.pu", `"g.pu" for "--one-per" flag: dimension`},
		{"--sample 10",
			`"10" for "--sample" flag: want a percentage of more than 0% and at most 100%, such as 10%`},
		{"--sample 0%", `"0%" for "--sample" flag: want a percentage`},
		{"--sample 101%", `"101%" for "--sample" flag: want a percentage`},
		{"--sample NaN%", `"NaN%" for "--sample" flag: want a percentage`},
		{"--seed -1", `"-1" for "--seed" flag: want a whole number from 0 to 2^64-1`},
		{"--seed 7.5", `"7.5" for "--seed" flag: want a whole number`},
		{"--canary=maybe", `"maybe" for "--canary" flag`},
	} {
		_, err := specOf(strings.Fields(row.args)...)
		require.ErrorContains(t, err, row.want, row.args)
	}
}
