package page

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
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
func (p *Page) feed(s *stream, of interest, show func(snapshot) (over bool)) error {
	r, end := p.sampler.read(of)
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
				asking.Go(func() { past <- p.pastFailures(ctx, now.inventory, of.mesh) })
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
		At: e.At, Kind: e.Kind, Status: e.Status, Subject: inspect.Subject(e, p.extent), Mesh: e.Mesh, Rank: e.Rank,
		Point: inspect.EventPoint(e, p.extent), Count: e.Count, Host: e.Host, Step: e.Step, Reason: e.Reason,
		By:     e.By,
		Causes: inspect.DescribeFailure(e, p.extent).Causes,
	}
}

// extent returns the extent of a mesh, if the last sample knows it.
func (p *Page) extent(id string) (base shape.Extent, known bool) {
	base, known = p.sampler.latest().Extents[id]
	return base, known
}
