package supervise_test

import (
	"testing"
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
)

type policies = map[string]supervise.Policy

var (
	propagate = supervise.Policy{}
	temporary = supervise.Policy{Restart: supervise.Temporary}
	transient = supervise.Policy{Restart: supervise.Transient}
	permanent = supervise.Policy{Restart: supervise.Permanent}

	all     = policies{"a": permanent, "b": permanent, "c": permanent, "d": permanent}
	delayed = policies{"a": slow(1), "b": slow(2), "c": slow(3), "d": slow(4)}
)

// slow is permanent, with an initial backoff in seconds.
func slow(seconds int) supervise.Policy {
	d := time.Duration(seconds) * time.Second
	return supervise.Policy{Restart: supervise.Permanent, Backoff: supervise.Backoff{First: d, Max: 4 * d},
		Window: time.Hour}
}

// limit is permanent, with an intensity.
func limit(most int, within time.Duration) supervise.Policy {
	return supervise.Policy{Restart: supervise.Permanent, MaxRestarts: most, Window: within}
}

type scenario struct {
	name     string
	strategy supervise.Strategy
	policies policies
	lines    []line
}

func run(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, c := range scenarios {
		t.Run(c.name, func(t *testing.T) { play(t, c.strategy, c.policies, c.lines) })
	}
}

func TestPolicy_decidesWhichEndsLeadToARestart_SUP1(t *testing.T) {
	for _, strategy := range []supervise.Strategy{supervise.OneForOne, supervise.OneForAll,
		supervise.RestForOne} {
		for _, c := range []struct {
			name         string
			p            supervise.Policy
			ended, fails string
		}{
			{"propagate", propagate, "", "escalate a: its policy is propagate"},
			{"temporary", temporary, "", ""},
			{"transient", transient, "", "start a"},
			{"permanent", permanent, "start a", "start a"},
		} {
			t.Run(strategy.String()+" "+c.name, func(t *testing.T) {
				only := policies{"a": c.p}
				play(t, strategy, only, []line{{"a ends", c.ended}})
				play(t, strategy, only, []line{{"a fails", c.fails}})
				play(t, strategy, only, []line{{"a asked", ""}, {"a fails", ""}})
			})
		}
	}
}

func TestOneForOne_endAffectsNoOtherChild_SUP1(t *testing.T) {
	run(t, []scenario{
		{"one-for-one", supervise.OneForOne, all, []line{
			{"b fails", "start b"},
			{"c fails", "start c"}, // at the same time: nobody waits for b
			{"b is b2", ""},
			{"c is c2", ""},
			{"b fails", ""}, // an old life
			{"b2 fails", "start b2"},
		}},
		{"an escalation leaves the siblings to the parent", supervise.OneForAll,
			policies{"a": permanent, "b": propagate, "c": permanent}, []line{
				{"b fails", "escalate b: its policy is propagate"},
				{"b fails", ""},
				{"a fails", "stop c"}, // b is not missed
				{"c asked", "start a"},
				{"a is a", "start c"},
				{"c is c", ""},
			}},
		{"an orderly end, too", supervise.OneForAll,
			policies{"a": permanent, "b": transient, "c": permanent}, []line{
				{"b ends", ""},
				{"a fails", "stop c"},
			}},
		{"who is asked to stop leaves alone", supervise.RestForOne, all, []line{
			{"a asked", ""},
			{"b fails", "stop c"},
		}},
	})
}

func TestGroups_stopInReverseAndStartInOrder_SUP3(t *testing.T) {
	run(t, []scenario{
		{"one-for-all", supervise.OneForAll, all, []line{
			{"b fails", "stop c"},
			{"c asked", "stop a"},
			{"a asked", "start a"},
			{"a is a2", "start b"},
			{"b is b2", "start c"},
			{"c is c2", ""},
			{"a2 fails", "stop c2"}, // each has its old place
			{"c2 ends", "stop b2"},
			{"b2 ends", "start a2"},
		}},
		{"rest-for-one, in the middle", supervise.RestForOne, all, []line{
			{"b fails", "stop c"},
			{"c asked", "start b"},
			{"b is b", "start c"},
			{"c is c", ""},
		}},
		{"rest-for-one, the last", supervise.RestForOne, all, []line{
			{"c fails", "start c"},
		}},
		{"rest-for-one, the first while a later one is on its way", supervise.RestForOne, all, []line{
			{"b fails", "stop c"},
			{"a fails", ""}, // c has not ended
			{"c asked", "start a"},
			{"a is a", "start b"},
			{"b is b", "start c"},
		}},
		{"a member that ends by itself while its group is being stopped", supervise.OneForAll, all, []line{
			{"a fails", "stop c"},
			{"b fails", ""}, // before its turn: it need not be stopped any more
			{"c fails", "start a"},
			{"a is a", "start b"},
			{"b is b", "start c"},
		}},
		{"an end that is told twice counts once", supervise.OneForAll, all, []line{
			{"a fails", "stop c"},
			{"a fails", ""},
			{"c asked", "stop b"},
			{"c fails", ""},
			{"b asked", "start a"},
			{"a fails", ""}, // it has not even begun
		}},
		{"a member that fails when only some are there again", supervise.OneForAll, all, []line{
			{"a fails", "stop c"},
			{"c asked", "stop b"},
			{"b asked", "start a"},
			{"a is a2", "start b"},
			{"a2 fails", ""}, // b is stopped as soon as it is there
			{"b is b2", "stop b2"},
			{"b2 asked", "start a2"},
		}},
		{"a member that was not there in time to be stopped cannot fail again", supervise.OneForAll, all, []line{
			{"a fails", "stop c"},
			{"c asked", "stop b"},
			{"b asked", "start a"},
			{"a is a2", "start b"},
			{"a2 fails", ""},
			{"b cannot start", "start a2"},
		}},
		{"a child that comes meanwhile is not disturbed", supervise.OneForAll, all, []line{
			{"a fails", "stop c"},
			{"d spawned", ""},
			{"c asked", "stop b"},
			{"b asked", "start a"},
			{"a is a", "start b"},
			{"b is b", "start c"},
			{"c is c", ""},
			{"a fails", "stop d"},
		}},
		{"a child that comes meanwhile and ends joins in", supervise.OneForAll, all, []line{
			{"a fails", "stop c"},
			{"d spawned", ""},
			{"d fails", ""},
			{"c asked", "stop b"},
			{"b asked", "start a"},
			{"a is a", "start b"},
			{"b is b", "start c"},
			{"c is c", "start d"},
		}},
	})
}

func TestGroups_includeMembersWithOtherPolicies_SUP1(t *testing.T) {
	run(t, []scenario{
		{"a temporary one is stopped for good", supervise.OneForAll,
			policies{"a": permanent, "b": temporary, "c": permanent}, []line{
				{"a fails", "stop c"},
				{"c asked", "stop b"},
				{"b asked", "start a"},
				{"a is a", "start c"},
				{"c is c", ""},
				{"b fails", ""},
			}},
		{"a temporary one may end before its turn", supervise.OneForAll,
			policies{"a": permanent, "b": temporary, "c": permanent}, []line{
				{"a fails", "stop c"},
				{"b fails", ""},
				{"c asked", "start a"},
				{"a is a", "start c"},
			}},
		{"one that propagates comes again", supervise.OneForAll, policies{"a": propagate, "b": permanent}, []line{
			{"b fails", "stop a"},
			{"a fails", "start a"}, // it was to end
			{"a is a", "start b"},
			{"b is b", ""},
			{"a fails", "escalate a: its policy is propagate"},
			{"b fails", "start b"},
		}},
		{"one that propagates and cannot come again is the parent's", supervise.OneForAll,
			policies{"a": propagate, "b": permanent}, []line{
				{"b fails", "stop a"},
				{"a asked", "start a"},
				{"a cannot start", "escalate a: its policy is propagate, start b"},
				{"b is b", ""},
			}},
		{"a transient one that had its end with the group comes again", supervise.RestForOne,
			policies{"a": permanent, "b": transient}, []line{
				{"a fails", "stop b"},
				{"b ends", "start a"},
				{"a is a", "start b"},
			}},
	})
}
