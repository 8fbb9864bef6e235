package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

// eventRecord is a line of GET /api/events.
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

func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), sampleTimeout)
	defer cancel()
	conn, err := p.conn(ctx)
	if err != nil {
		return err
	}
	pick := inspect.EventFilter{Mesh: r.FormValue("mesh")}
	watch, err := inspect.WatchEvents(conn, pick) // before the query, so that no event is lost in between
	if err != nil {
		return err
	}
	defer watch.Close()
	past, unknown := inspect.PastFailures(ctx, conn, pick)
	return p.serveStream(w, r, func(s *stream) error {
		snapshots, end := p.sampler.read() // it knows the shapes of meshes, for coordinates
		defer end()
		select {
		case <-snapshots:
		case <-s.ctx.Done():
			return nil
		}
		for _, e := range past {
			if !s.send(p.newEventRecord(e)) {
				return s.err
			}
		}
		if unknown != nil {
			s.send(errorLine{"past failures are not known: " + unknown.Error()})
		}
		hosts, err := conn.AllHosts(s.ctx)
		if err != nil {
			s.send(errorLine{"changes of hosts do not show: " + err.Error()})
		} else {
			defer watch.WatchHosts(s.ctx, hosts, pick)()
		}
		return each(s, watch.Events, func(e actor.Event) any {
			if n := watch.Lost.Swap(0); n > 0 {
				s.send(errorLine{fmt.Sprintf("%d events were lost: they came faster than they were read", n)})
			}
			return p.newEventRecord(e)
		})
	})
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
