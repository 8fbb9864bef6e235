package faults

import (
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/subjects"
)

// order is a request of the test to a child, a line of JSON on its stdin.
type order struct {
	Do string

	Recorders recorders          // spawn
	Load      load               // load
	Within    time.Duration      // settle, call
	To        subjects.ActorID   `json:",omitzero"` // call
	Endpoint  string             // call
	Size      int                // call
	Procs     []subjects.ProcID  // look: which of them are known to be dead
	Ring      []subjects.ActorID // ring
	Rounds    int                // ring
	Own       possession         // own
}

// report is the answer to an order, a line of JSON on the child's stdout.
type report struct {
	Err string `json:",omitempty"`

	URL     string             `json:",omitempty"` // of a server
	Slow    int                `json:",omitempty"` // how often a server found a client too slow
	Actors  []subjects.ActorID `json:",omitempty"` // that were spawned
	Outcome outcome            // of a call
	State   state              // of a worker
	Ring    ringResult         // of a ring
	Heard   []heardEnd         `json:",omitempty"` // by an owner, so far
}

// recorders are the actors for a worker to spawn.
type recorders struct {
	N       int
	Mailbox int           // 0: as by default
	Slow    time.Duration // how long each handler takes
}

// Modes of a load.
const (
	post = "post" // asynchronously
	wait = "wait" // waiting for room
	call = "call" // one after the other
	raw  = "raw"  // by NATS alone: the control that shows that a fault bites
)

// load is the task of each sender of a worker.
type load struct {
	Mode    string
	Senders int
	To      []subjects.ActorID // in turn
	// instead: a mesh for casts by each verb, in every mode
	Casts    *casts        `json:",omitempty"`
	Messages int           // of each sender, at most
	For      time.Duration // how long it sends; 0: until all are sent
	Sizes    []int         // of the payloads, in turn; none: up to 256 bytes, at random
	Rate     int           // messages a second of each sender; 0: as fast as it can
	Deadline time.Duration // of each message; 0: patience
	Seed     uint64
}

// casts is a mesh, and parts of it, for casts in turn.
type casts struct {
	Place cast.Placement
	Parts []string
}

// outcome is the result of one call.
type outcome struct {
	Code          actor.Code // 0: it was answered
	Undeliverable bool
	Text          string
	Took          time.Duration
}

// state is a look at a worker.
type state struct {
	RSS, Peak   int // bytes of memory: now, and the most so far
	Sending     bool
	Sent        int            // messages of loads
	Casts       []castOutcome  // of loads that are over
	Connections map[string]int // states of its two connections, how often
	Dead        []bool         // whether the procs that were asked about are known to be dead
	Info        actor.Info
}

// ringResult is the result of calls around a ring.
type ringResult struct {
	Done, Failed int
	Examples     []string
	Took         time.Duration
}
