package launch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestStop_followsItsStateMachine(t *testing.T) {
	const wait = 5 * time.Second
	t0 := time.Unix(1000, 0)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	state := func(p phase, deadline time.Time) stopState { return stopState{p, deadline, wait} }
	terminate := func(now, grace int) func(stopState) (stopState, effect) {
		return func(s stopState) (stopState, effect) {
			return s.terminate(at(now), time.Duration(grace)*time.Second)
		}
	}
	kill := func(now int) func(stopState) (stopState, effect) {
		return func(s stopState) (stopState, effect) { return s.kill(at(now)) }
	}
	tick := func(now int) func(stopState) (stopState, effect) {
		return func(s stopState) (stopState, effect) { return s.tick(at(now)) }
	}
	never := time.Time{}
	for _, tt := range []struct {
		name  string
		from  stopState
		event func(stopState) (stopState, effect)
		to    stopState
		do    effect
	}{
		{"terminate asks", state(running, never), terminate(0, 10), state(terminating, at(10)), sendTerm},
		{"no grace kills", state(running, never), terminate(0, 0), state(killing, at(5)), sendKill},
		{"negative grace kills", state(terminating, at(9)), terminate(1, -1), state(killing, at(6)), sendKill},
		{"later call shortens", state(terminating, at(10)), terminate(2, 3), state(terminating, at(5)), nothing},
		{"later call never lengthens", state(terminating, at(10)), terminate(2, 30),
			state(terminating, at(10)), nothing},
		{"terminate is too late", state(killing, at(5)), terminate(1, 1), state(killing, at(5)), nothing},
		{"kill at once", state(running, never), kill(1), state(killing, at(6)), sendKill},
		{"kill cuts the grace", state(terminating, at(10)), kill(1), state(killing, at(6)), sendKill},
		{"kill again, same wait", state(killing, at(6)), kill(3), state(killing, at(6)), sendKill},
		{"kill of a stuck one", state(killing, never), kill(9), state(killing, never), sendKill},
		{"deadline kills", state(terminating, at(10)), tick(10), state(killing, at(15)), sendKillAfterGrace},
		{"early tick", state(terminating, at(10)), tick(9), state(terminating, at(10)), nothing},
		{"survivor is reported", state(killing, at(6)), tick(7), state(killing, never), reportStuck},
		{"survivor is reported once", state(killing, never), tick(99), state(killing, never), nothing},
		{"tick without deadline", state(running, never), tick(99), state(running, never), nothing},
		{"ended: terminate", state(ended, never), terminate(1, 1), state(ended, never), nothing},
		{"ended: no grace", state(ended, never), terminate(1, 0), state(ended, never), nothing},
		{"ended: kill", state(ended, never), kill(1), state(ended, never), nothing},
		{"ended: tick", state(ended, never), tick(1), state(ended, never), nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to, do := tt.event(tt.from)
			require.Equal(t, tt.to, to)
			require.Equal(t, tt.do, do)
		})
	}
	require.Equal(t, state(ended, never), state(terminating, at(3)).exit())
}

// In every order of events the phase only advances and a grace only shortens. A child with a stop
// request is killed at its last deadline.
func TestStop_alwaysReachesKill_LCH6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := stopState{killWait: time.Second}, time.Unix(1000, 0)
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			before, want := s, nothing
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "pass")) * time.Second)
			var do effect
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				s, do = s.terminate(now, time.Duration(rapid.IntRange(-1, 9).Draw(t, "grace"))*time.Second)
			case 1, 2:
				s, do = s.tick(now)
				if before.phase == terminating && !now.Before(before.deadline) {
					want = sendKillAfterGrace
				}
			case 3:
				s, do = s.kill(now)
				want = sendKill
			}
			require.GreaterOrEqual(t, s.phase, before.phase)
			if want != nothing {
				require.Equal(t, want, do)
			}
			if s.phase == terminating {
				require.False(t, s.deadline.IsZero())
				require.False(t, before.phase == terminating && s.deadline.After(before.deadline))
			}
		}
	})
}
