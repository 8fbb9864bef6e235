package controller

import (
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// Events of a controller, besides actor.Event and agent.Overlay. An Overlay is a reply newer than
// every earlier event.

// agentRequest is a request to agents for the statuses of their ranks.
type agentRequest struct {
	serial     uint64          // state.serial at the request; ranks that started since are ignored
	evacuating subjects.HostID // set: the agent is of this host under evacuation; ranks that left are ignored
	expected   []int           // ascending: ranks that the host had, which therefore are in its reply
}

// agentAnswer is the reply to a request.
type agentAnswer struct {
	agentRequest
	overlay agent.Overlay
}

// createFailure is the error of creating one share of the mesh.
type createFailure struct {
	host  int
	first int // of actors: the first rank that was asked
	err   error
}

// startResult is the result of restarting ranks.
type startResult struct {
	starts  []rankStart
	overlay agent.Overlay
	err     error
}

// timerFired reports that the time of effects.wake has come.
type timerFired struct{}

// renewalDue reports that the next renewal of leases begins.
type renewalDue struct{}

// hostChange is a change in the health of a host of the mesh, or of a spare.
type hostChange presence.Change

// effects are the controller's actions after an event, in this order.
type effects struct {
	events      []actor.Event     // changes of ranks, to publish on ev. (CTL-3)
	procEnds    []actor.Event     // ends of procs on dead hosts, to publish on ev.
	starts      []rankStart       // ranks to restart
	departures  []departure       // ranks to stop, for a start elsewhere
	staleHosts  []subjects.HostID // hosts that returned, to be sent a stop for their remaining procs
	lateStarts  []int             // ranks that their hosts may have started after the stop
	orphanHosts []subjects.HostID // dead hosts whose kept procs are to be probed
	newHostds   []subjects.HostID // hosts whose hostd may have started again, to be asked for their ranks
	wake        time.Time         // of the next timerFired; zero: unchanged

	actorWaits []actorWait // moved ranks whose actors have yet to start
	evacuated  []evacuated // finished evacuations
	restarted  []int       // ranks whose requested restart is over

	failures []actor.Event // ranks that failed for good, to escalate
}

// rankStart is a rank to start, in its next generation.
type rankStart struct{ rank, gen int }
