package supervise_test

import (
	"testing"
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
)

func TestSupervisor_tooManyRestartsEscalate_SUP4(t *testing.T) {
	run(t, []scenario{
		{"three within five seconds, unless the policy says otherwise", supervise.OneForOne, all, []line{
			{"a fails", "start a"}, {"a is a", ""},
			{"+2s a fails", "start a"}, {"a is a", ""},
			{"+2s a fails", "start a"}, {"a is a", ""},
			{"+1s a fails", "escalate a: 3 restarts within 5s"}, // the first is exactly 5 s old
			{"a fails", ""},
			{"b fails", "start b"}, // which has its own count
		}},
		{"the window slides", supervise.OneForOne, all, []line{
			{"a fails", "start a"}, {"a is a", ""},
			{"+2s a fails", "start a"}, {"a is a", ""},
			{"+2s a fails", "start a"}, {"a is a", ""},
			{"+1001ms a fails", "start a"}, {"a is a", ""},
			{"+1998ms a fails", "escalate a: 3 restarts within 5s"},
		}},
		{"an orderly end counts, if it is followed by a start", supervise.OneForOne,
			policies{"a": limit(1, time.Minute)}, []line{
				{"a ends", "start a"}, {"a is a", ""},
				{"a ends", "escalate a: 1 restart within 1m0s"},
			}},
		{"so does a start that fails", supervise.OneForOne, policies{"a": limit(2, time.Minute)}, []line{
			{"a fails", "start a"},
			{"a cannot start", "start a"},
			{"a cannot start", "escalate a: 2 restarts within 1m0s"},
			{"a cannot start", ""},
		}},
		{"a group restart counts once, whoever caused it", supervise.OneForAll,
			policies{"a": limit(2, time.Minute), "b": limit(2, time.Minute)}, []line{
				{"a fails", "stop b"}, {"b asked", "start a"}, {"a is a", "start b"}, {"b is b", ""},
				{"b fails", "stop a"}, {"a asked", "start a"}, {"a is a", "start b"}, {"b is b", ""},
				{"a fails", "escalate a: 2 restarts within 1m0s"},
			}},
		{"the policy of who causes it is asked", supervise.RestForOne,
			policies{"a": limit(1, time.Minute), "b": limit(2, time.Minute)}, []line{
				{"b fails", "start b"}, {"b is b", ""},
				{"b fails", "start b"}, {"b is b", ""},
				{"a fails", "escalate a: 1 restart within 1m0s"},
				{"+1m1s b fails", "start b"},
			}},
		{"two that end before the group comes again are one restart", supervise.RestForOne,
			policies{"a": limit(2, time.Minute), "b": limit(2, time.Minute), "c": propagate}, []line{
				{"b fails", "stop c"},
				{"a fails", ""},
				{"c asked", "start a"}, {"a is a", "start b"}, {"b is b", "start c"}, {"c is c", ""},
				{"a fails", "stop c"},
				{"c asked", "stop b"}, {"b asked", "start a"}, {"a is a", "start b"}, {"b is b", "start c"},
				{"c is c", ""},
				{"a fails", "escalate a: 2 restarts within 1m0s"},
			}},
		{"a child that comes late knows of them", supervise.OneForAll,
			policies{"a": limit(1, time.Second), "d": limit(2, time.Minute)}, []line{
				{"a fails", "start a"}, {"a is a", ""},
				{"+2s a fails", "start a"}, {"a is a", ""},
				{"d spawned", ""},
				{"d fails", "escalate d: 2 restarts within 1m0s"},
			}},
		{"a member that cannot start sends its group back", supervise.OneForAll,
			policies{"a": permanent, "b": limit(2, time.Minute), "c": permanent}, []line{
				{"c fails", "stop b"}, {"b asked", "stop a"}, {"a asked", "start a"}, {"a is a", "start b"},
				{"b cannot start", "stop a"}, {"a asked", "start a"}, {"a is a", "start b"},
				{"b cannot start", "escalate b: 2 restarts within 1m0s, start c"},
				{"c is c", ""},
			}},
		{"a count begins when the start does, not when it is decided", supervise.OneForOne, policies{
			"a": {Restart: supervise.Permanent, MaxRestarts: 1, Window: 5 * time.Second,
				Backoff: supervise.Backoff{First: 4 * time.Second, Max: 4 * time.Second}},
		}, []line{
			{"a fails", "wait 4s"},
			{"+4s due", "start a"}, {"a is a", ""},
			{"+2s a fails", "escalate a: 1 restart within 5s"},
		}},
	})
}

func TestBackoff_restartAwaitsItsDelay_SUP4(t *testing.T) {
	run(t, []scenario{
		{"longer each time, up to the longest", supervise.OneForOne, delayed, []line{
			{"a fails", "wait 1s"}, {"+1s due", "start a"},
			{"a cannot start", "wait 3s"}, {"+2s due", "start a"},
			{"a is a", ""},
			{"a fails", "wait 7s"}, {"+4s due", "start a"},
		}},
		{"one alarm for all, set for the first", supervise.OneForOne, delayed, []line{
			{"b fails", "wait 2s"},
			{"c fails", ""},        // at 3 s, which is later
			{"a fails", "wait 1s"}, // earlier
			{"+1s due", "start a, wait 2s"},
			{"+1s due", "start b, wait 3s"},
			{"+1s due", "start c"},
			{"+1s due", ""},
		}},
		{"an alarm out of turn does no harm", supervise.OneForOne, delayed, []line{
			{"due", ""},
			{"b fails", "wait 2s"},
			{"+1s due", "wait 2s"},
			{"+1s due", "start b"},
			{"due", ""},
		}},
		{"another event does for an alarm that is late", supervise.OneForOne, delayed, []line{
			{"a fails", "wait 1s"},
			{"+2s b fails", "start a"},
			{"due", "wait 4s"}, // the late one: until then there was one outstanding
			{"+2s due", "start b"},
		}},
		{"the group waits with the one that failed", supervise.OneForAll, delayed, []line{
			{"b fails", "stop c"},
			{"+500ms c asked", "stop a"},
			{"a asked", "wait 2s"},
			{"+1500ms due", "start a"}, // a second earlier by its own policy
			{"a is a", "start b"},
			{"b is b", "start c"},
		}},
		{"the delay runs while the group is being stopped", supervise.OneForAll, delayed, []line{
			{"a fails", "stop c"},
			{"+3s c asked", "stop b"},
			{"b asked", "start a"},
		}},
		{"an earlier one that fails during the delay", supervise.RestForOne, delayed, []line{
			{"c fails", "wait 3s"},
			{"+2s a fails", "stop b"},
			{"b asked", ""}, // at 3 s, and there is an alarm
			{"+1s due", "start a"},
			{"a is a", "start b"},
			{"b is b", "start c"},
		}},
		{"an earlier one that has to wait for longer", supervise.RestForOne,
			policies{"a": slow(9), "b": slow(1)}, []line{
				{"b fails", "wait 1s"},
				{"a fails", ""},
				{"+1s due", "wait 9s"},
				{"+8s due", "start a"},
				{"a is a", "start b"},
			}},
		{"a new one that fails during the delay makes it longer", supervise.OneForAll,
			policies{"a": slow(1), "d": slow(4)}, []line{
				{"a fails", "wait 1s"},
				{"d spawned", ""},
				{"d fails", ""},
				{"+1s due", "wait 4s"},
				{"+3s due", "start a"},
				{"a is a", "start d"},
				{"d is d", ""},
			}},
	})
}

func TestStop_requestedStopPreventsARestart_SUP1(t *testing.T) {
	run(t, []scenario{
		{"during its delay", supervise.OneForOne, delayed, []line{
			{"a fails", "wait 1s"},
			{"a asked", ""},
			{"+1s due", ""},
		}},
		{"during the delay of its group", supervise.OneForAll, delayed, []line{
			{"a fails", "stop c"}, {"c asked", "stop b"}, {"b asked", "wait 1s"},
			{"a asked", ""}, // even the one that caused it
			{"+1s due", "start b"},
			{"b is b", "start c"},
			{"c is c", ""},
		}},
		{"while others of its group are being stopped", supervise.OneForAll, all, []line{
			{"a fails", "stop c"},
			{"b asked", ""}, // that was not us: its turn had not come
			{"c asked", "start a"},
			{"a is a", "start c"},
		}},
		{"by its group first, and then by its user", supervise.OneForAll, all, []line{
			{"a fails", "stop c"}, {"c asked", "stop b"},
			{"c asked", ""},
			{"b asked", "start a"},
			{"a is a", "start b"},
			{"b is b", ""},
		}},
		{"while it is being started", supervise.OneForOne, all, []line{
			{"a fails", "start a"},
			{"a asked", ""},
			{"a is a2", "stop a2"},
			{"a2 fails", ""},
		}},
		{"while it is being started, in vain", supervise.OneForOne, all, []line{
			{"a fails", "start a"},
			{"a asked", ""},
			{"a cannot start", ""},
			{"a is a2", ""},
		}},
		{"while it is being started with its group, which waits for its end", supervise.RestForOne, all, []line{
			{"a fails", "stop c"}, {"c asked", "stop b"}, {"b asked", "start a"},
			{"a asked", ""},
			{"a is a2", "stop a2"},
			{"a2 ends", "start b"},
		}},
		{"by the name of the child that took its place", supervise.OneForOne, all, []line{
			{"a fails", "start a"},
			{"a is b", ""}, // b is there already
			{"b fails", "start b"},
			{"a fails", ""},
		}},
	})
}

func TestStop_noEffectFollows_SUP8(t *testing.T) {
	run(t, []scenario{
		{"in the middle of everything", supervise.OneForAll, delayed, []line{
			{"a fails", "stop c"},
			{"over", ""},
			{"c asked", ""}, {"b asked", ""},
			{"d spawned", ""}, {"d fails", ""},
			{"+9s due", ""},
		}},
		{"during a start", supervise.OneForOne, all, []line{
			{"a fails", "start a"},
			{"over", ""},
			{"a is a2", ""}, {"a2 fails", ""}, {"a cannot start", ""},
		}},
	})
}

func TestSupervisor_ignoresUnexpectedInput_SUP8(t *testing.T) {
	run(t, []scenario{
		{"nobody knows it", supervise.OneForAll, all, []line{
			{"x fails", ""}, {"x asked", ""}, {"x is y", ""}, {"x cannot start", ""},
			{"y fails", ""},
		}},
		{"it is not being started", supervise.OneForAll, all, []line{
			{"a is a2", ""}, {"a cannot start", ""},
			{"a2 fails", ""},
			{"a fails", "stop c"},
			{"a is a2", ""}, {"a cannot start", ""},
			{"c is c2", ""}, {"c cannot start", ""},
		}},
		{"it is there already", supervise.RestForOne, all, []line{
			{"a spawned", ""},
			{"c fails", "start c"}, // a is not the last
		}},
	})
}
