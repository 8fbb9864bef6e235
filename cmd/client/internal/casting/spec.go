package casting

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
)

// Ways to collect the replies of a cast.
const (
	collectStream = "stream" // one by one, on arrival
	collectGather = "gather" // all together, by rank
	collectReduce = "reduce" // folded into one value
	collectSend   = "send"   // no replies
	collectChoose = "choose" // the reply of any one rank
)

// CollectModes lists all modes, the default first.
func CollectModes() []string {
	return []string{collectStream, collectGather, collectReduce, collectSend, collectChoose}
}

// ReducerExamples lists the built-in reducers in flag syntax.
func ReducerExamples() []string {
	return []string{
		"sum", "min", "max", "all", "any", "count", "concat", "collect", "merge(sum)", "top(3)", "bottom(3)",
		"count-by", "histogram(10,100)",
	}
}

// Spec is a cast as given on the command line.
type Spec struct {
	target.Request
	collect  string
	reducer  string
	throttle cast.Throttle
	dryRun   bool
	NatsCmd  bool

	throttled []string // throttle flags that were set
}

// throttleFlags lists the flags of package cast's Throttle.
func throttleFlags() []string {
	return []string{"batch-size", "batch-delay", "one-per", "canary", "max-failures", "sample"}
}

// Register adds the flags of a cast to its command.
func (s *Spec) Register(c *cobra.Command) {
	fs := c.Flags()
	flags.Add(
		fs, &s.collect, "collect", "MODE", "how to collect the answers: "+strings.Join(CollectModes(), "|"),
		flags.Choice(CollectModes()...),
	)
	fs.StringVar(
		&s.reducer, "reduce", "",
		"fold the answers with a reducer: a built-in one, such as sum or top(3), or one that the endpoint declares",
	)
	flags.Add(fs, &s.throttle.BatchSize, "batch-size", "N", "ask at most N ranks at a time", flags.Count)
	flags.Add(
		fs, &s.throttle.OnePer, "one-per", "LABEL",
		"ask at most one rank of each index of a dimension at a time, such as host or gpu", flags.Dimension,
	)
	flags.Add(
		fs, &s.throttle.BatchDelay, "batch-delay", "DURATION", "wait between batches", flags.PositiveDuration,
	)
	fs.BoolVar(
		&s.throttle.Canary, "canary", false,
		"ask one rank first, and the others only after it answers with a value",
	)
	flags.Add(
		fs, &s.throttle.MaxFailures, "max-failures", "N", "stop after N failed or missing ranks", flags.Count,
	)
	flags.Add(
		fs, &s.throttle.SamplePercent, "sample", "PERCENT", "ask a part of the ranks, such as 10%", flags.Percent,
	)
	flags.Add(fs, &s.throttle.Seed, "seed", "N", "seed that draws the ranks of --sample (default 0)", flags.Seed)
	fs.BoolVar(&s.dryRun, "dry-run", false, "show which ranks would be asked, and send nothing")
	fs.BoolVar(
		&s.NatsCmd, "print-nats", false,
		"print the nats command of the same cast through a gateway, and send nothing",
	)
	for name, values := range map[string][]string{
		"collect": CollectModes(), "reduce": ReducerExamples(), "one-per": {"host"},
		"sample":      {"10%", "25%", "50%"},
		"batch-delay": {"1s", "5s", "1m"}, "batch-size": nil, "max-failures": nil, "seed": nil,
	} {
		// the flag exists
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// Parse reads the arguments and refuses contradicting flags.
func (s *Spec) Parse(c *cobra.Command, args []string, timeout time.Duration) (err error) {
	s.Request, err = target.ParseRequest(args)
	if err != nil {
		return err
	}
	given := c.Flags().Changed
	s.throttled = slices.DeleteFunc(throttleFlags(), func(name string) bool { return !given(name) })
	s.throttle.Timeout = timeout
	if err := s.defaultCollect(given("reduce")); err != nil {
		return err
	}
	return s.validate(given)
}

// defaultCollect chooses the mode if none is set.
func (s *Spec) defaultCollect(reduce bool) error {
	switch {
	case reduce && strings.TrimSpace(s.reducer) == "":
		return cli.Usagef("--reduce %q: want the name of a reducer, such as sum", s.reducer)
	case reduce && s.collect != "" && s.collect != collectReduce:
		return cli.Usagef(
			"--collect %s and --reduce %s contradict each other: want --collect %s, or only one of them", s.collect,
			s.reducer, collectReduce,
		)
	case !reduce && s.collect == collectReduce:
		return cli.Usagef(
			"--collect %s: want --reduce with the name of a reducer, too, such as --reduce sum", collectReduce,
		)
	case reduce:
		s.collect = collectReduce
	case s.collect == "":
		s.collect = CollectModes()[0]
	}
	return nil
}

// validate refuses contradicting flags.
func (s *Spec) validate(given func(name string) bool) error {
	batches := given("batch-size") || given("one-per") || given("canary")
	switch throttled := len(s.throttled) > 0; {
	case throttled && (s.collect == collectSend || s.collect == collectChoose):
		return cli.Usagef("--%s with --collect %s: want %s, %s or %s, which wait for the answers of many",
			s.throttled[0],
			s.collect, collectStream, collectGather, collectReduce)
	case given("batch-delay") && !batches:
		return cli.Usagef(
			"--batch-delay %s: want --batch-size, --one-per or --canary, too: it is between batches",
			s.throttle.BatchDelay,
		)
	case given("max-failures") && !batches:
		return cli.Usagef(
			"--max-failures %d: want --batch-size, --one-per or --canary, too: it is checked between batches",
			s.throttle.MaxFailures,
		)
	case given("seed") && !given("sample"):
		return cli.Usagef(
			"--seed %d: want --sample, too, such as --sample 10%%: the seed draws its ranks", s.throttle.Seed,
		)
	case s.dryRun && s.NatsCmd:
		return cli.Usagef("want one of --dry-run and --print-nats, got both")
	case s.NatsCmd && throttled:
		return cli.Usagef(
			"--%s has no equivalent in a nats command: gateways ask all ranks at once; want --print-nats without it",
			s.throttled[0],
		)
	case s.NatsCmd && s.throttle.Timeout > maxGatewayTTL:
		return cli.Usagef(
			"--timeout %s: a gateway waits at most %s; want no more with --print-nats", s.throttle.Timeout,
			maxGatewayTTL,
		)
	}
	return nil
}
