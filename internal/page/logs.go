package page

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

const maxTail = 1000 // lines

// logRecord is a line of GET /api/meshes/ID/logs.
type logRecord struct {
	At     time.Time `json:"at,omitzero"`
	Rank   int       `json:"rank"` // -1: news of the host
	Point  string    `json:"point"`
	Stream string    `json:"stream"`
	Text   string    `json:"text"`
	Count  int       `json:"count,omitempty"` // of ranks with an equal line, or one that differs in numbers
}

func (p *Page) serveLogs(w http.ResponseWriter, r *http.Request) error {
	lines := 100
	if said := r.FormValue("tail"); said != "" {
		n, err := strconv.Atoi(said)
		if err != nil || n < 0 || n > maxTail {
			return badRequest("tail %q: want 0 to %d", said, maxTail)
		}
		lines = n
	}
	if lines == 0 {
		lines = -1 // new lines only
	}
	ctx, cancel := context.WithTimeout(r.Context(), sampleTimeout)
	defer cancel()
	_, m, err := p.find(ctx, r.PathValue("mesh"))
	if err != nil {
		return err
	}
	of := m
	if region := r.FormValue("region"); region != "" {
		of = m.Select(region)
		if err := of.Err(); err != nil {
			return badRequest("%w", err)
		}
	}
	return p.serveStream(w, r, func(s *stream) error { return feedLogs(s, of, lines) })
}

// feedLogs sends the lines of a region. Its hosts keep lines that the reader does not take.
func feedLogs(s *stream, of mesh.ProcMesh, lines int) error {
	logs, err := inspect.FollowLogs(s.ctx, of, lines)
	if err != nil {
		return err
	}
	defer logs.Close()
	extent := of.Describe().Extent
	return each(s, logs.Lines, func(l mesh.LogLine) any {
		r := logRecord{At: l.Time, Rank: l.Rank, Point: l.Ranks, Stream: l.Stream, Text: l.Text}
		if l.Count > 1 {
			r.Count = l.Count
		} else if l.Rank >= 0 {
			r.Point = inspect.Point(extent, l.Rank)
		}
		return r
	})
}
