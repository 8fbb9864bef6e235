package inspect

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// RankDetail is one rank: its process, its actors, and its last failure. Its JSON names are stable.
type RankDetail struct {
	Proc
	Generation int          `json:"generation"`
	Actors     []Actor      `json:"actors"`
	Failure    *RankFailure `json:"failure"`
	Missing    string       `json:"missing,omitempty"` // why there are no actors
}

// RankFailure is the last failure of a rank. Its JSON names are stable.
type RankFailure struct {
	Reason     string    `json:"reason"`
	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     int       `json:"signal,omitempty"`
	StderrTail []string  `json:"stderr_tail,omitempty"`
	At         time.Time `json:"at"`
	Causes     []string  `json:"causes"` // outermost first
}

// Rank asks the host, the proc and the owner of one rank of a mesh.
func Rank(ctx context.Context, conn *mesh.Net, m mesh.ProcMesh, rank int) (RankDetail, error) {
	extent := m.Extent()
	if rank < 0 || rank >= extent.NumRanks() {
		return RankDetail{}, fmt.Errorf("rank %d: want 0 to %d", rank, extent.NumRanks()-1)
	}
	one := m
	if extent.NumRanks() > 1 {
		one = m.Select(Point(extent, rank))
	}
	states, err := one.States(ctx)
	if err != nil {
		return RankDetail{}, err
	}
	out := RankDetail{Actors: []Actor{}}
	for _, s := range states.Values() {
		out.Proc = NewProc(s)
		out.Generation = s.Gen
	}
	out.Rank = rank
	out.Point = Point(extent, rank)
	if h, err := m.Host(rank); err == nil {
		out.Host = h.Label()
	}
	if !Ended(out.Status) {
		asking, cancel := context.WithTimeout(ctx, askTimeout) // a frozen proc answers nothing
		defer cancel()
		actors, err := Actors(asking, one, false)
		if err != nil {
			out.Missing = err.Error()
		}
		out.Actors = append(out.Actors, actors...)
	}
	extentOf := func(id string) (shape.Extent, bool) { return extent, id == m.ID().String() }
	for _, e := range FailuresOf(ctx, conn, m) {
		e.Each(func(e actor.Event) {
			if e.Rank == rank {
				out.Failure = DescribeFailure(e, extentOf)
			}
		})
	}
	return out, nil
}

// DescribeFailure lists the chain of causes of an end. extentOf returns the extent of a known mesh.
func DescribeFailure(e actor.Event, extentOf func(mesh string) (shape.Extent, bool)) *RankFailure {
	f := &RankFailure{
		Reason: e.Reason, ExitCode: e.ExitCode, Signal: e.Signal, StderrTail: e.StderrTail, At: e.At,
		Causes: []string{},
	}
	for c := e.Cause; c != nil; c = c.Cause {
		f.Causes = append(f.Causes, Subject(*c, extentOf)+": "+c.Reason)
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

// Subject names what an event is about: a host, a mesh, a rank or an actor of it. extentOf returns
// the extent of a known mesh.
func Subject(e actor.Event, extentOf func(mesh string) (shape.Extent, bool)) string {
	if e.Kind == actor.KindHost {
		return text.HostLabel(e.Host)
	}
	name := cmp.Or(e.Name, text.Label(e.Mesh))
	at := EventPoint(e, extentOf)
	switch {
	case e.Kind == actor.KindAudit:
		return cmp.Or(e.Object, name)
	case e.Kind == actor.KindMesh:
		return name
	case at != "":
		name += "[" + at + "]"
	case e.Count > 1:
		name += fmt.Sprintf("[%d-%d]", e.Rank, e.Rank+e.Count-1)
	default:
		name += fmt.Sprintf("[%d]", e.Rank)
	}
	if e.Actor != "" {
		name += " " + text.Label(e.Actor)
	}
	return name
}

// EventPoint returns the coordinates of an event's ranks, if the mesh is known.
func EventPoint(e actor.Event, extentOf func(mesh string) (shape.Extent, bool)) string {
	if e.Kind != actor.KindProc && e.Kind != actor.KindActor && e.Kind != actor.KindRank {
		return ""
	}
	base, known := extentOf(e.Mesh)
	if !known {
		return ""
	}
	var ranks []int
	e.Each(func(e actor.Event) {
		if 0 <= e.Rank && e.Rank < base.NumRanks() {
			ranks = append(ranks, e.Rank)
		}
	})
	return shape.Describe(base, ranks)
}
