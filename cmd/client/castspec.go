package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
)

// The ways to collect what a cast brings home.
const (
	collectStream = "stream" // one by one, as they arrive
	collectGather = "gather" // all together, by rank
	collectReduce = "reduce" // folded into one value
	collectPost   = "post"   // no answers
	collectChoose = "choose" // the answer of any one rank
)

// collectModes are all of them; the first is what a cast does unless it is told otherwise.
func collectModes() []string {
	return []string{collectStream, collectGather, collectReduce, collectPost, collectChoose}
}

// reducerExamples are the built-in reducers, as people may write them.
func reducerExamples() []string {
	return []string{
		"sum", "min", "max", "all", "any", "count", "concat", "collect", "merge(sum)", "top(3)", "bottom(3)",
		"count-by", "histogram(10,100)",
	}
}

// castSpec is a cast as the command line says it.
type castSpec struct {
	question
	collect  string
	reducer  string
	throttle cast.Throttle
	dryRun   bool
	natsCmd  bool

	throttled []string // the flags given that make it a throttled cast
}

// throttleFlags are those that package cast's Throttle is made of.
func throttleFlags() []string {
	return []string{"batch", "pause", "one-per", "canary", "stop-after", "limit"}
}

// flags adds the flags of a cast to its command.
func (s *castSpec) flags(c *cobra.Command) {
	fs := c.Flags()
	readFlag(fs, &s.collect, "collect", "MODE", "what becomes of the answers: "+strings.Join(collectModes(), "|"), readOne(collectModes()...))
	fs.StringVar(&s.reducer, "reduce", "", "fold the answers by a reducer that is built in, such as sum or top(3), or that the endpoint declares")
	readFlag(fs, &s.throttle.Batch, "batch", "N", "ask at most N ranks at a time", readCount)
	readFlag(fs, &s.throttle.OnePer, "one-per", "LABEL", "ask at most one rank of each index of a dimension at a time, such as host or gpu", readLabel)
	readFlag(fs, &s.throttle.Pause, "pause", "DURATION", "wait between batches", readPause)
	fs.BoolVar(&s.throttle.Canary, "canary", false, "ask one rank first, and the others only if it answers with a value")
	readFlag(fs, &s.throttle.StopAfter, "stop-after", "N", "no more batches once N ranks have failed or are missing", readCount)
	readFlag(fs, &s.throttle.Percent, "limit", "PERCENT", "ask only so many of the ranks, such as 10%", readPercent)
	readFlag(fs, &s.throttle.Seed, "seed", "N", "draw the ranks of --limit with another seed than 0", readSeed)
	fs.BoolVar(&s.dryRun, "dry-run", false, "show who would be asked, and ask nobody")
	fs.BoolVar(&s.natsCmd, "nats-cmd", false, "print the nats command that makes the same cast through a gateway, and ask nobody")
	for name, values := range map[string][]string{
		"collect": collectModes(), "reduce": reducerExamples(), "one-per": {"host"}, "limit": {"10%", "25%", "50%"},
		"pause": {"1s", "5s", "1m"}, "batch": nil, "stop-after": nil, "seed": nil,
	} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
}

// parse reads the arguments, and refuses flags that contradict each other.
func (s *castSpec) parse(c *cobra.Command, args []string, timeout time.Duration) (err error) {
	if s.question, err = parseQuestion(args); err != nil {
		return err
	}
	given := c.Flags().Changed
	s.throttled = slices.DeleteFunc(throttleFlags(), func(name string) bool { return !given(name) })
	s.throttle.Timeout = timeout
	if err := s.settleCollect(given("reduce")); err != nil {
		return err
	}
	return s.check(given)
}

// settleCollect finds how to collect when it is not said.
func (s *castSpec) settleCollect(reduce bool) error {
	switch {
	case reduce && strings.TrimSpace(s.reducer) == "":
		return cli.Usagef("--reduce %q: want the name of a reducer, such as sum", s.reducer)
	case reduce && s.collect != "" && s.collect != collectReduce:
		return cli.Usagef("--collect %s and --reduce %s contradict each other: want --collect %s, or only one of them", s.collect, s.reducer, collectReduce)
	case !reduce && s.collect == collectReduce:
		return cli.Usagef("--collect %s: want --reduce with the name of a reducer, too, such as --reduce sum", collectReduce)
	case reduce:
		s.collect = collectReduce
	case s.collect == "":
		s.collect = collectModes()[0]
	}
	return nil
}

// check finds flags that make no sense together.
func (s *castSpec) check(given func(name string) bool) error {
	batches := given("batch") || given("one-per") || given("canary")
	switch throttled := len(s.throttled) > 0; {
	case throttled && (s.collect == collectPost || s.collect == collectChoose):
		return cli.Usagef("--%s with --collect %s: want %s, %s or %s, which wait for the answers of many", s.throttled[0],
			s.collect, collectStream, collectGather, collectReduce)
	case given("pause") && !batches:
		return cli.Usagef("--pause %s: want --batch, --one-per or --canary, too: it is between batches", s.throttle.Pause)
	case given("stop-after") && !batches:
		return cli.Usagef("--stop-after %d: want --batch, --one-per or --canary, too: it is looked at between batches", s.throttle.StopAfter)
	case given("seed") && !given("limit"):
		return cli.Usagef("--seed %d: want --limit, too, such as --limit 10%%: the seed draws its ranks", s.throttle.Seed)
	case s.dryRun && s.natsCmd:
		return cli.Usagef("want one of --dry-run and --nats-cmd, got both")
	case s.natsCmd && throttled:
		return cli.Usagef("--%s has no equivalent in a nats command: gateways ask all ranks at once; want --nats-cmd without it", s.throttled[0])
	case s.natsCmd && s.throttle.Timeout > maxGatewayTTL:
		return cli.Usagef("--timeout %s: a gateway waits at most %s; want no more with --nats-cmd", s.throttle.Timeout, maxGatewayTTL)
	}
	return nil
}
