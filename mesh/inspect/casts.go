package inspect

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// Cast is a running cast and its coverage so far. Its JSON names are stable.
type Cast struct {
	ID       string        `json:"id"`
	Actor    string        `json:"actor"`
	Endpoint string        `json:"endpoint"`
	From     string        `json:"from"` // the casting actor
	Age      time.Duration `json:"age"`
	Left     time.Duration `json:"left"`   // until its deadline
	Region   string        `json:"region"` // "": the whole mesh
	Asked    int           `json:"asked"`
	Answered int           `json:"answered"`
	Failed   int           `json:"failed"`
	Waiting  string        `json:"waiting"` // the ranks that have not answered
	Silent   string        `json:"silent"`  // those whose process told nothing
}

// Casts asks the procs of a live mesh for the casts whose replies they fold or gather: those of the
// wanted ranks, or all with nil. silent is the region of procs without an answer; more counts casts
// that did not fit.
func Casts(
	ctx context.Context, m mesh.MeshState, wanted func(rank int) bool,
) (all []Cast, silent string, more int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var found agent.Casts
	if wanted == nil {
		found, err = m.Procs.Casts(ctx)
	} else {
		some, none := selectLive(m, wanted)
		if none != nil || some.IsEmpty() {
			return []Cast{}, "", 0, none
		}
		found, err = m.Procs.CastsKnownTo(ctx, some)
	}
	if err != nil {
		partial, partly := errors.AsType[*cast.CoverageError](err)
		if !partly {
			return nil, "", 0, err
		}
		silent = partial.Coverage.MissingRegion() // the others have ended
	}
	ended := map[int]bool{}
	for rank, s := range newestStates(m.States) {
		ended[rank] = s.Status.Phase.Terminal()
	}
	all = []Cast{}
	for _, c := range found.Casts {
		all = append(all, newCast(m.Procs.Extent(), c, ended, wanted))
	}
	return all, silent, found.More, nil
}

// newCast merges what processes know of a cast. Ended ranks have failed. With asks, the coverage
// is that of the ranks that were asked.
func newCast(base shape.Extent, c agent.RunningCast, ended map[int]bool, asks func(rank int) bool) Cast {
	out := Cast{
		ID: c.ID, Actor: text.Label(c.Actor), Endpoint: c.Endpoint, From: c.From, Age: c.Age, Left: c.Left,
	}
	var asked, waiting, silent []int
	wanted := c.Asked
	if wanted.IsEmpty() {
		wanted = shape.Interval(0, min(c.Region.NumRanks(), base.NumRanks())) // the mesh may have changed
	}
	for view := range wanted.All() {
		rank, err := c.Region.BaseRank(view)
		if err != nil || rank >= base.NumRanks() {
			continue
		}
		asked = append(asked, rank)
		if asks != nil && !asks(rank) {
			continue
		}
		out.Asked++
		switch {
		case c.Answered.Contains(view):
			out.Answered++
		case c.Failed.Contains(view), c.Gone.Contains(view), ended[rank]:
			out.Failed++
		case c.Waiting.Contains(view):
			waiting = append(waiting, rank)
		default:
			silent = append(silent, rank)
		}
	}
	if len(asked) < base.NumRanks() {
		out.Region = shape.Describe(base, asked)
	}
	out.Waiting = shape.Describe(base, waiting)
	out.Silent = shape.Describe(base, silent)
	return out
}
