package page

import (
	"context"
	"net/http"
	"strconv"

	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// rankInfo is the answer to GET /api/meshes/ID/ranks/N.
type rankInfo struct {
	inspect.RankDetail
	CPU     float64 `json:"cpu"` // percent of one CPU, of the last sample
	Queued  int     `json:"queued"`
	Handled uint64  `json:"handled"`
	Busy    string  `json:"busy,omitempty"` // an actor and the endpoint of its running handler
}

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
	detail, err := inspect.Rank(ctx, conn, m, rank)
	if err != nil {
		return err
	}
	out := rankInfo{RankDetail: detail}
	for _, c := range p.sampler.latest().Procs {
		if c.Mesh == m.ID().String() && c.Rank == rank && c.Gen == out.Generation {
			out.CPU = c.CPU
			out.Memory = c.Memory
		}
	}
	for _, a := range detail.Actors {
		out.Queued += a.Queued
		out.Handled += a.Handled
		if out.Busy == "" && a.Current != "" {
			out.Busy = text.Label(a.Actor) + "." + a.Current
		}
	}
	return writeJSON(w, out)
}
