package controller

import (
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/subjects"
)

// Events of a controller, besides actor.Event and agent.Overlay. An Overlay is a reply that no
// later event has overtaken.

// agentAnswer is the reply of agents to a request with a serial number.
type agentAnswer struct {
	serial     uint64 // state.serial then: of ranks that were started since it says nothing
	overlay    agent.Overlay
	evacuating subjects.HostID // set: the host that is being emptied, and says nothing of ranks that have left
}

// createFailure is the error of creating one share of the mesh.
type createFailure struct {
	host int
	err  error
}

// startResult is the result of restarting ranks.
type startResult struct {
	starts  []rankStart
	overlay agent.Overlay
	err     error
}

// timerFired reports that the time of a wake has come.
type timerFired struct{}

// hostChange is a change in the health of a host of the mesh, or of a spare.
type hostChange presence.Change

// effects are the controller's actions after an event, in this order.
type effects struct {
	events      []actor.Event     // to be told to the streams (CTL-3)
	procEnds    []actor.Event     // procs that nobody else will tell the end of: to be told on ev.
	starts      []rankStart       // ranks to be started anew
	departures  []departure       // ranks to be stopped where they are, to be started elsewhere
	staleHosts  []subjects.HostID // hosts that came back with procs of the mesh that have no place in it any more
	orphanHosts []subjects.HostID // dead hosts whose procs are kept, and may go on: to be asked
	wake        time.Time         // when to hear that it is due; zero: as before

	actorWaits []actorWait // ranks that run where they went to, whose actors are to be waited for
	evacuated  []evacuated // hosts that nothing is to be moved from any more
	restarted  []int       // ranks that are not on their way any more, of those that were to be started anew

	failures []actor.Event // of news: ranks that failed for good, which somebody has to deal with
}

// rankStart is a rank to start, in its next generation.
type rankStart struct{ rank, gen int }
