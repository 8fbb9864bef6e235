package page

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// rankInfo is the answer to GET /api/meshes/ID/ranks/N.
type rankInfo struct {
	inspect.Proc
	Generation int             `json:"generation"`
	CPU        float64         `json:"cpu"` // percent of one CPU
	Queued     int             `json:"queued"`
	Handled    uint64          `json:"handled"`
	Busy       string          `json:"busy,omitempty"` // an actor and the endpoint of its running handler
	Actors     []inspect.Actor `json:"actors"`
	Failure    *failureInfo    `json:"failure"`
	Missing    string          `json:"missing,omitempty"` // why there are no actors
}

// failureInfo is the last failure of a rank.
type failureInfo struct {
	Reason     string    `json:"reason"`
	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     int       `json:"signal,omitempty"`
	StderrTail []string  `json:"stderr_tail,omitempty"`
	At         time.Time `json:"at"`
	Causes     []string  `json:"causes"` // outermost first
}

// listTimeout bounds the wait for a list of actors.
const listTimeout = 2 * time.Second

func (p *Page) serveRank(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), sampleTimeout)
	defer cancel()
	conn, m, err := p.find(ctx, r.PathValue("mesh"))
	if err != nil {
		return err
	}
	rank, err := strconv.Atoi(r.PathValue("rank"))
	if ranks := m.Extent().NumRanks(); err != nil || rank < 0 || rank >= ranks {
		return badRequest("rank %q: want 0 to %d", r.PathValue("rank"), ranks-1)
	}
	one := m.Select(inspect.Point(m.Extent(), rank))
	if m.Extent().NumRanks() == 1 {
		one = m
	}
	states, err := one.States(ctx)
	if err != nil {
		return err
	}
	out := rankInfo{Actors: []inspect.Actor{}}
	for _, s := range states.Values() {
		out.Proc = inspect.NewProc(s)
		out.Generation = s.Gen
	}
	for _, c := range p.sampler.latest().Procs {
		if c.Mesh == m.ID().String() && c.Rank == rank && c.Gen == out.Generation {
			out.CPU = c.CPU
			out.Queued = c.Queued
			out.Handled = c.Handled
			out.Busy = c.Busy
			out.Memory = c.Memory
		}
	}
	out.Rank = rank
	out.Point = inspect.Point(m.Extent(), rank)
	if h, err := m.Host(rank); err == nil {
		out.Host = h.Label()
	}
	if !inspect.Ended(out.Status) {
		asking, cancel := context.WithTimeout(ctx, listTimeout) // a frozen proc answers nothing
		defer cancel()
		actors, err := inspect.Actors(asking, one, false)
		if err != nil {
			out.Missing = err.Error()
		}
		out.Actors = append(out.Actors, actors...)
	}
	for _, e := range inspect.FailuresOf(ctx, conn, m) {
		e.Each(func(e actor.Event) {
			if e.Rank == rank {
				out.Failure = p.describeFailure(e)
			}
		})
	}
	return writeJSON(w, out)
}

// describeFailure lists the chain of causes of an end.
func (p *Page) describeFailure(e actor.Event) *failureInfo {
	f := &failureInfo{
		Reason: e.Reason, ExitCode: e.ExitCode, Signal: e.Signal, StderrTail: e.StderrTail, At: e.At,
		Causes: []string{},
	}
	for c := e.Cause; c != nil; c = c.Cause {
		f.Causes = append(f.Causes, p.subject(*c)+": "+c.Reason)
		if f.ExitCode == nil {
			f.ExitCode = c.ExitCode
			f.Signal = c.Signal
		}
		if f.StderrTail == nil {
			f.StderrTail = c.StderrTail
		}
	}
	return f
}
