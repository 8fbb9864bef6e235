package config

import (
	"fmt"
	"time"
)

// Conflicts lists values that contradict each other. Each is within its bounds, so nothing breaks,
// but one limit may expire before another can take effect. Callers print them as warnings.
func (c *Config) Conflicts() []string {
	slots := c.effective()
	var found []string
	for _, r := range constraints {
		if !r.holds(slots) {
			found = append(found, r.text)
		}
	}
	return found
}

// constraint is a rule over a snapshot of all keys.
type constraint struct {
	text  string
	holds func([]effectiveValue) bool
}

var constraints = [...]constraint{
	lessThan(SupervisionPollInterval, SupervisionLeaseTTL, "leases would run out before they are renewed"),
	atMost(ProcReadyTimeout, ProcSpawnProgressTimeout,
		"a spawn would give up before hosts report which proc is not ready"),
	atMost(TerminateGrace, ProcStopProgressTimeout,
		"a stop would give up before procs that do not end are killed"),
	lessThan(ProcReadyTimeout, MeshSpawnTimeout,
		"a spawn would give up before hosts report which proc is not ready"),
	lessThan(TerminateGrace, MeshStopTimeout, "a stop would give up before procs that do not end are killed"),
	lessThan(SupervisionHeartbeatInterval, SupervisionSuspectAfter,
		"a host would be suspected before its next heartbeat"),
	lessThan(SupervisionSuspectAfter, SupervisionDeadAfter, "a host would be dead before it is probed"),
	sizeAtMost(DeliverySendBuffer, DeliverySendBufferTotal),
	sizeAtMost(DeliveryReceiveWindow, DeliveryReceiveWindowTotal),
	{
		fmt.Sprintf("want %s to be at least %s + %s + %s: "+
			"a controller that waits for states would be declared dead",
			SupervisionControllerTimeout, SupervisionPollInterval, ActorQueryTimeout, ProcQueryTimeout),
		func(s []effectiveValue) bool {
			round := valueIn(s, SupervisionPollInterval) + valueIn(s, ActorQueryTimeout) + valueIn(s, ProcQueryTimeout)
			return valueIn(s, SupervisionControllerTimeout) >= round
		},
	},
}

// lessThan is a constraint of two finite durations.
func lessThan(a, b Key[time.Duration], why string) constraint {
	return constraint{
		fmt.Sprintf("want %s to be less than %s: %s", a, b, why),
		func(s []effectiveValue) bool {
			return valueIn(s, a) == 0 || valueIn(s, b) == 0 || valueIn(s, a) < valueIn(s, b)
		},
	}
}

// atMost is lessThan for durations that may be equal.
func atMost(a, b Key[time.Duration], why string) constraint {
	return constraint{
		fmt.Sprintf("want %s to be at most %s: %s", a, b, why),
		func(s []effectiveValue) bool {
			return valueIn(s, a) == 0 || valueIn(s, b) == 0 || valueIn(s, a) <= valueIn(s, b)
		},
	}
}

// sizeAtMost is a constraint of a part and its total.
func sizeAtMost(a, b Key[Size]) constraint {
	return constraint{
		fmt.Sprintf("want %s to be at most %s", a, b),
		func(s []effectiveValue) bool { return valueIn(s, a) <= valueIn(s, b) },
	}
}

func valueIn[T Value](s []effectiveValue, k Key[T]) T { return s[k.index].value.(T) }
