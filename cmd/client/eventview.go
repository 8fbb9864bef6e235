package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// eventWatch receives what happens from now on.
type eventWatch struct {
	events chan actor.Event
	lost   atomic.Int64
	sub    *bus.Sub
}

func watchEvents(net *mesh.Net, pick eventPick) (*eventWatch, error) {
	w := &eventWatch{events: make(chan actor.Event, followRoom)}
	space := net.Proc().Space()
	sub, err := net.Bus().Control().Subscribe(space.Events(pick.kind, subjects.MeshID{}), func(m bus.Msg) {
		e, err := actor.OpenEvent(space, m)
		if err != nil || !pick.takes(e) {
			return
		}
		w.put(e)
	})
	w.sub = sub
	return w, err
}

func (w *eventWatch) put(e actor.Event) {
	select {
	case w.events <- e:
	default: // the pump must not wait for a terminal
		w.lost.Add(1)
	}
}

// watchHosts adds how hosts are, which nobody tells on the bus, until the function is called.
func (w *eventWatch) watchHosts(ctx context.Context, hosts mesh.HostMesh, pick eventPick) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for e, err := range hosts.Changes(ctx) {
			if err != nil {
				e = actor.Event{Kind: actor.KindHost, Status: "unknown", Reason: err.Error(), At: time.Now()}
			}
			e.Name, e.Rank, e.View, e.Point = "", 0, 0, "" // it is none of a mesh that anybody knows
			if pick.takes(e) && e.Step != "host.mode" {    // hosts tell that themselves
				w.put(e)
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

func (w *eventWatch) close() { _ = w.sub.Unsubscribe() } // the connection closes anyway

// remembered asks the owners of meshes what has failed. One that does not answer says nothing.
func remembered(ctx context.Context, net *mesh.Net, pick eventPick) ([]actor.Event, error) {
	meshes, err := net.Meshes(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	reports := make([]controller.Report, len(meshes))
	var wg sync.WaitGroup
	slots := make(chan struct{}, asksAtOnce)
	for i, m := range meshes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			owner := actor.RefOf[agent.Agent](m.Procs.Describe().Owner).Via(net.Proc())
			reports[i], _ = controller.Health.Call(within, owner, actor.None{})
		})
	}
	wg.Wait()
	past := []actor.Event{}
	for _, r := range reports {
		for _, e := range r.Failed {
			if pick.takes(e) {
				past = append(past, e)
			}
		}
	}
	slices.SortStableFunc(past, func(a, b actor.Event) int { return a.At.Compare(b.At) })
	return past, ctx.Err()
}

// eventView shows events. It belongs to one goroutine.
type eventView struct {
	app     *app
	net     *mesh.Net
	verbose bool
	shown   map[string]bool         // the ends of ranks: one that is remembered may come on the bus, too
	extents map[string]shape.Extent // of meshes, for coordinates
	looked  time.Time
}

func (a *app) newEventView(net *mesh.Net, verbose bool) *eventView {
	return &eventView{app: a, net: net, verbose: verbose, shown: map[string]bool{}, extents: map[string]shape.Extent{}}
}

// show writes an event, unless it is the end of something whose end was shown.
func (v *eventView) show(ctx context.Context, e actor.Event) error {
	if e.Terminal() && e.Kind != actor.KindMesh && e.Kind != actor.KindHost { // which may end again
		key := fmt.Sprint(e.Kind, e.Mesh, e.Rank, e.Count, e.Gen, e.Actor, e.Nth)
		if v.shown[key] {
			return nil
		}
		if len(v.shown) < followRoom {
			v.shown[key] = true
		}
	}
	if v.app.output != asTable {
		return v.app.line(e)
	}
	fmt.Fprintln(v.app.out, v.line(e, v.place(ctx, e)))
	if v.verbose {
		for _, line := range details(e) {
			fmt.Fprintln(v.app.out, "    "+line)
		}
	}
	return nil
}

// line is an event in one line.
func (v *eventView) line(e actor.Event, at string) string {
	parts := []string{e.At.Local().Format(time.TimeOnly), fmt.Sprintf("%-5s", e.Kind), cmp.Or(e.Name, labelOf(e.Mesh))}
	if at != "" {
		parts = append(parts, "["+at+"]")
	}
	if e.Actor != "" {
		parts = append(parts, labelOf(e.Actor))
	}
	parts = append(parts, v.app.status(e.Status))
	if e.Step != "" {
		parts = append(parts, e.Step)
	}
	if e.Host != "" && e.Kind != actor.KindHost {
		parts = append(parts, "on "+hostLabel(e.Host))
	}
	s := strings.Join(parts, " ")
	if e.Reason != "" {
		s += ": " + shorten(e.Reason, 120)
	}
	if e.Cause != nil {
		s += " ← " + shorten(e.RootCause().String(), 120)
	}
	return s
}

// details is what the line leaves out.
func details(e actor.Event) (out []string) {
	about := e.Mesh
	if p := e.Proc(); p.IsValid() && e.Kind != actor.KindHost && e.Kind != actor.KindMesh {
		about = p.String()
	}
	if e.Actor != "" {
		about += "/" + e.Actor
	}
	if e.Type != "" {
		about += " (type " + e.Type + ")"
	}
	out = append(out, "about: "+about+", at "+e.At.Format(time.RFC3339Nano))
	if e.Host != "" {
		out = append(out, "host: "+e.Host)
	}
	switch {
	case e.Signal != 0:
		out = append(out, fmt.Sprintf("signal: %d", e.Signal))
	case e.ExitCode != nil:
		out = append(out, fmt.Sprintf("exit code: %d", *e.ExitCode))
	}
	if strings.Contains(e.Reason, "\n") {
		for line := range strings.Lines(e.Reason) {
			out = append(out, "reason: "+strings.TrimRight(line, "\n"))
		}
	}
	for c := e.Cause; c != nil; c = c.Cause {
		out = append(out, "caused by: "+c.String())
	}
	for _, line := range e.StderrTail {
		out = append(out, "| "+line)
	}
	return out
}

// place is the coordinates of what an event is about; ranks where its mesh is not known.
func (v *eventView) place(ctx context.Context, e actor.Event) string {
	if e.Kind == actor.KindHost || e.Kind == actor.KindMesh && e.Count == 0 && e.Point == "" { // a controller speaks of its mesh
		return ""
	}
	ranks := make([]int, 0, max(e.Count, 1))
	e.Each(func(e actor.Event) { ranks = append(ranks, e.Rank) })
	base, known := v.extent(ctx, e.Mesh)
	switch {
	case !known || ranks[len(ranks)-1] >= base.NumRanks():
		return strings.Trim(fmt.Sprint(ranks), "[]")
	case len(ranks) == 1:
		return pointOf(base, ranks[0])
	}
	return shape.Describe(base, ranks)
}

// lookAgain is how long an unknown mesh stays so: its hosts hear of it after its owner has told.
const lookAgain = time.Second

// extent is that of a mesh. Hosts are asked for those that are not known, now and again.
func (v *eventView) extent(ctx context.Context, id string) (shape.Extent, bool) {
	if e, known := v.extents[id]; known || time.Since(v.looked) < lookAgain {
		return e, known
	}
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	meshes, err := v.net.Meshes(within)
	if err == nil {
		clear(v.extents) // those that are gone take no room
	}
	for _, m := range meshes {
		v.extents[m.Procs.ID().String()] = m.Procs.Extent()
	}
	v.looked = time.Now()
	e, known := v.extents[id]
	return e, known
}
