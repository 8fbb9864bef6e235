package page

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

// eventRecord is an event in a line of a stream.
type eventRecord struct {
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"`
	Status  string    `json:"status"`
	Subject string    `json:"subject"`
	Mesh    string    `json:"mesh,omitempty"`
	Rank    int       `json:"rank"`
	Point   string    `json:"point,omitempty"` // of the rank, or of several
	Count   int       `json:"count,omitempty"` // of consecutive ranks
	Host    string    `json:"host,omitempty"`
	Step    string    `json:"step,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	By      string    `json:"by,omitempty"`
	Causes  []string  `json:"causes"`
}

// eventLine is a line of a stream beside its main ones: an event, or a remark on events.
type eventLine struct {
	Event *eventRecord `json:"event,omitempty"`
	// EventsNote says what is missing among the events.
	EventsNote string `json:"events_note,omitempty"`
}

// feed shows snapshots and events on a stream, first the past failures, until show has shown the
// last snapshot.
func (p *Page) feed(s *stream, id string, show func(snapshot) (over bool)) error {
	r, end := p.sampler.read(id)
	defer end()
	ctx, cancel := context.WithCancel(s.ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	past := make(chan []actor.Event, 1)
	asked := false
	idle := time.NewTicker(keepalive)
	defer idle.Stop()
	for s.err == nil {
		select {
		case now := <-r.snapshots:
			if !asked && now.err == nil {
				asked = true
				asking.Go(func() { past <- p.pastFailures(ctx, now.inventory, id) })
			}
			if show(now) {
				return nil
			}
		case all := <-past:
			for _, e := range all {
				s.send(p.newEventLine(e))
			}
		case e := <-r.events:
			s.send(p.newEventLine(e))
			if n := p.sampler.takeLost(r); n > 0 {
				s.send(eventLine{EventsNote: fmt.Sprintf("%d events were lost: they came faster than they were read", n)})
			}
		case <-idle.C:
			s.send(struct{}{})
		case <-s.ctx.Done():
			return nil
		}
	}
	return s.err
}

func (p *Page) pastFailures(ctx context.Context, inv mesh.Inventory, id string) []actor.Event {
	conn, err := p.conn(ctx)
	if err != nil {
		return nil
	}
	return inspect.PastFailuresOf(ctx, conn, inv, inspect.EventFilter{Mesh: id})
}

func (p *Page) newEventLine(e actor.Event) eventLine {
	r := p.newEventRecord(e)
	return eventLine{Event: &r}
}

func (p *Page) newEventRecord(e actor.Event) eventRecord {
	return eventRecord{
		At: e.At, Kind: e.Kind, Status: e.Status, Subject: p.subject(e), Mesh: e.Mesh, Rank: e.Rank,
		Point: p.point(e), Count: e.Count, Host: e.Host, Step: e.Step, Reason: e.Reason, By: e.By,
		Causes: p.describeFailure(e).Causes,
	}
}

// point returns the coordinates of an event's ranks, if the last sample knows the mesh.
func (p *Page) point(e actor.Event) string {
	if e.Kind != actor.KindProc && e.Kind != actor.KindActor && e.Kind != actor.KindRank {
		return ""
	}
	for _, m := range p.sampler.latest().meshes {
		var base shape.Extent
		if m.Mesh != e.Mesh || base.UnmarshalText([]byte(m.Extent)) != nil {
			continue
		}
		var ranks []int
		e.Each(func(e actor.Event) {
			if 0 <= e.Rank && e.Rank < base.NumRanks() {
				ranks = append(ranks, e.Rank)
			}
		})
		return shape.Describe(base, ranks)
	}
	return ""
}

// subject names what an event is about: a host, a mesh, a rank or an actor of it.
func (p *Page) subject(e actor.Event) string {
	if e.Kind == actor.KindHost {
		return text.HostLabel(e.Host)
	}
	name := cmp.Or(e.Name, text.Label(e.Mesh))
	at := p.point(e)
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
