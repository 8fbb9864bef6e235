package presence

import (
	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Event steps of watched hosts.
const (
	stepAlive   = "host.alive"   // heard again
	stepSuspect = "host.suspect" // silent or hinted at; probed
	stepUnknown = "host.unknown" // this process cannot hear
	stepDead    = "host.dead"
	stepLeft    = "host.left" // stopped cleanly
	stepMode    = "host.mode" // cordoned, draining, or open again
)

// EventReporter turns the changes of a Watcher into events (PRES-11). The zero value is ready.
type EventReporter struct{ last map[subjects.HostID]Change }

// Event returns the event for a change, or false for none. The caller adds mesh and rank.
func (t *EventReporter) Event(c Change) (e actor.Event, news bool) {
	last, told := t.last[c.Host]
	if !told {
		last = Change{State: Alive, Mode: agent.ModeOpen}
	}
	if c.NeverHeard && c.State == Unknown || c.State == last.State && c.Mode == last.Mode {
		return e, false
	}
	if t.last == nil {
		t.last = map[subjects.HostID]Change{}
	}
	t.last[c.Host] = c
	e = actor.Event{
		Kind: actor.KindHost, Status: c.State.String(), Reason: c.Reason, Mesh: c.Host.String(),
		Host: c.Host.String(), At: c.At,
	}
	switch {
	case c.State == Dead && c.Graceful:
		e.Step, e.Status = stepLeft, string(actor.Stopped)
	case c.State == Dead:
		e.Step, e.Status = stepDead, string(actor.Failed)
	case c.State == Suspect:
		e.Step = stepSuspect
	case c.State == Unknown:
		e.Step = stepUnknown
	default:
		e.Step, e.Status = stepAlive, string(c.Mode)
		if last.State == Alive {
			e.Step = stepMode
		}
	}
	return e, true
}
