package config

import (
	"fmt"
	"time"
)

// Conflicts says which values make no sense together. Each is in its bounds, so that nothing breaks,
// but a limit may strike before what it waits for can happen: a warning, to be shown.
func (c *Config) Conflicts() []string {
	slots := c.effective()
	var found []string
	for _, r := range rules {
		if !r.holds(slots) {
			found = append(found, r.text)
		}
	}
	return found
}

// rule is about one state of all keys.
type rule struct {
	text  string
	holds func([]slot) bool
}

var rules = [...]rule{
	less(SupervisionPoll, SupervisionOrphan, "leases would run out before they are renewed"),
	notLonger(HostReady, ProcSpawnIdle, "a spawn would give up before hosts say which proc is not ready"),
	notLonger(TerminateGrace, ProcStopIdle, "a stop would give up before procs that do not end are killed"),
	less(HostReady, MeshSpawnDeadline, "a spawn would give up before hosts say which proc is not ready"),
	less(TerminateGrace, MeshStopDeadline, "a stop would give up before procs that do not end are killed"),
	less(SupervisionHeartbeat, SupervisionSuspect, "a host would be suspected before it can say that it lives"),
	less(SupervisionSuspect, SupervisionDead, "a host would be dead before it is asked"),
	notMore(DeliveryOutbox, DeliveryOutboxAll),
	notMore(DeliveryWindow, DeliveryWindowAll),
	{
		fmt.Sprintf("want %s to be at least %s + %s + %s: a controller that waits for states would be taken for dead",
			SupervisionWatchdog, SupervisionPoll, ActorStateIdle, ProcStateIdle),
		func(s []slot) bool {
			return in(s, SupervisionWatchdog) >= in(s, SupervisionPoll)+in(s, ActorStateIdle)+in(s, ProcStateIdle)
		},
	},
}

// less is a rule of two times that do not wait for ever.
func less(a, b Key[time.Duration], why string) rule {
	return rule{
		fmt.Sprintf("want %s to be less than %s: %s", a, b, why),
		func(s []slot) bool { return in(s, a) == 0 || in(s, b) == 0 || in(s, a) < in(s, b) },
	}
}

// notLonger is less for times that may be equal.
func notLonger(a, b Key[time.Duration], why string) rule {
	return rule{
		fmt.Sprintf("want %s to be at most %s: %s", a, b, why),
		func(s []slot) bool { return in(s, a) == 0 || in(s, b) == 0 || in(s, a) <= in(s, b) },
	}
}

// notMore is a rule of a share and of the whole.
func notMore(a, b Key[Size]) rule {
	return rule{
		fmt.Sprintf("want %s to be at most %s", a, b),
		func(s []slot) bool { return in(s, a) <= in(s, b) },
	}
}

func in[T Value](s []slot, k Key[T]) T { return s[k.index].value.(T) }
