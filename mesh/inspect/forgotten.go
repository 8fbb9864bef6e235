package inspect

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// Forgotten explains a mesh that hosts do not know any more, by the failures that the system
// controller remembers. v and err are the results of Mesh. false: no such mesh failed later than
// that of the View.
func Forgotten(ctx context.Context, conn *mesh.Net, name string, v View, err error) (x Explanation, ok bool) {
	_, unknown := errors.AsType[*mesh.NotFoundError](err)
	if !unknown && (err != nil || !v.hasEnded()) {
		return x, false
	}
	ctl, err := system.Find(ctx, conn.Proc())
	if err != nil {
		return x, false
	}
	past, err := system.Failures.Call(ctx, ctl, actor.None{})
	if err != nil {
		return x, false
	}
	return explainForgotten(past, name, v)
}

// explainForgotten explains the mesh of the latest failure. past is in the order of time.
func explainForgotten(past []actor.Event, name string, v View) (x Explanation, ok bool) {
	var known time.Time
	if v.Started != nil {
		known = *v.Started
	}
	of := ""
	for _, e := range slices.Backward(past) {
		if e.Failed() && e.Mesh != v.Mesh && e.At.After(known) && slices.Contains(
			[]string{e.Mesh, text.Label(e.Mesh), e.Name}, name) {
			of = e.Mesh
			break
		}
	}
	var failed []Failure
	ranks := 1
	for _, e := range past {
		if e.Mesh != of || !e.Failed() {
			continue
		}
		e.Each(func(e actor.Event) {
			f := Failure{Rank: e.Rank}
			f.addEvent(e)
			failed = append(failed, f)
			ranks = max(ranks, e.Rank+1)
		})
	}
	if of == "" {
		return x, false
	}
	gone := View{
		Mesh: of, Ranks: ranks, Shape: shape.Of("rank", ranks), Phase: agent.Failed.String(), Failures: failed,
	}
	return Explanation{
		Mesh: of, Phase: gone.Phase, Causes: gone.rankCauses(),
		Answer:      of + " has ended, and no host remembers it; the system controller remembers its failures",
		Next:        []string{"nothing: it has ended"},
		Suggestions: []string{startAgain},
	}, true
}
