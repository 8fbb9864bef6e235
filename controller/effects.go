package controller

import (
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/subjects"
)

// What a controller hears, besides actor.Event, and agent.Overlay, which is an answer that nothing has
// overtaken.

// answer is what agents said to a question that was asked at some time.
type answer struct {
	asked   uint64 // state.serial then: of ranks that were started since it says nothing
	overlay agent.Overlay
	behind  subjects.HostID // set: the host that is being emptied, and says nothing of ranks that have left
}

// failure is the error of creating one share of the mesh.
type failure struct {
	host int
	err  error
}

// started is what became of starting ranks anew.
type started struct {
	starts  []start
	overlay agent.Overlay
	err     error
}

// due says that the time of a wake has come.
type due struct{}

// hostIs is what is known of a host of the mesh, or of a spare one.
type hostIs presence.Change

// effects are what a controller has to do about what it heard, in this order.
type effects struct {
	news   []actor.Event     // to be told to the streams (CTL-3)
	lost   []actor.Event     // procs that nobody else will tell the end of: to be told on ev.
	starts []start           // ranks to be started anew
	leaves []leave           // ranks to be stopped where they are, to be started elsewhere
	strays []subjects.HostID // hosts that came back with procs of the mesh that have no place in it any more
	asks   []subjects.HostID // dead hosts whose procs are kept, and may go on: to be asked
	wake   time.Time         // when to hear that it is due; zero: as before

	follows []follow  // ranks that run where they went to, whose actors are to be waited for
	vacated []vacated // hosts that nothing is to be moved from any more
	rolled  []int     // ranks that are not on their way any more, of those that were to be started anew

	failures []actor.Event // of news: ranks that failed for good, which somebody has to deal with
}

// start is a rank to be started, in the generation that is its turn.
type start struct{ rank, gen int }
