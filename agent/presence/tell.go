package presence

import (
	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// The steps of hosts that are watched.
const (
	stepAlive   = "host.alive"   // it is heard again
	stepSuspect = "host.suspect" // it is silent, or said to have gone: it is being asked
	stepUnknown = "host.unknown" // this process cannot hear
	stepDead    = "host.dead"
	stepLeft    = "host.left" // in good order
	stepMode    = "host.mode" // it is cordoned, drained, or open again
)

// Teller makes of what a Watcher says of hosts what is told of them (PRES-12). The zero value has told nothing.
type Teller struct{ last map[subjects.HostID]Change }

// Tell is what there is to tell of a host; false: nothing. Which mesh it is a rank of is for the caller to add.
func (t *Teller) Tell(c Change) (e actor.Event, news bool) {
	last, told := t.last[c.Host]
	if !told {
		last = Change{State: Alive, Mode: agent.Open}
	}
	if c.Unheard && c.State == Unknown || c.State == last.State && c.Mode == last.Mode {
		return e, false
	}
	if t.last == nil {
		t.last = map[subjects.HostID]Change{}
	}
	t.last[c.Host] = c
	e = actor.Event{Kind: actor.KindHost, Status: c.State.String(), Reason: c.Reason, Mesh: c.Host.String(), Host: c.Host.String(), At: c.At}
	switch {
	case c.State == Dead && c.Left:
		e.Step, e.Status = stepLeft, string(actor.Stopped)
	case c.State == Dead:
		e.Step, e.Status = stepDead, string(actor.Failed)
	case c.State == Suspect:
		e.Step = stepSuspect
	case c.State == Unknown:
		e.Step = stepUnknown
	default:
		if e.Step, e.Status = stepAlive, string(c.Mode); last.State == Alive {
			e.Step = stepMode
		}
	}
	return e, true
}
