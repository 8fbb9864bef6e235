package page

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/system"
)

// overview is a line of GET /api/overview.
type overview struct {
	At      time.Time              `json:"at"`
	Hosts   []inspect.HostCounters `json:"hosts"`
	Meshes  []inspect.MeshSummary  `json:"meshes"`
	Leader  string                 `json:"leader,omitempty"` // address of the system controller
	Worlds  []worldRow             `json:"worlds"`
	Missing string                 `json:"missing,omitempty"`
	Error   string                 `json:"error,omitempty"` // of the last sample; the rest is older
}

// worldRow is a world as the system controller knows it.
type worldRow struct {
	Name  string `json:"name"`
	Phase string `json:"phase"`
	Cause string `json:"cause,omitempty"`
}

// askWorlds asks the system controller; without an answer there are none.
func askWorlds(ctx context.Context, controller actor.Ref[*system.Controller]) (rows []worldRow) {
	all, err := system.GetSnapshot.Call(ctx, controller, system.Filter{})
	if err != nil {
		return nil
	}
	for _, w := range all.Worlds {
		row := worldRow{Name: w.Name, Phase: string(w.Status), Cause: w.Reason}
		if w.StoppingReason != "" {
			row.Phase = agent.ShuttingDown.String()
			row.Cause = w.StoppingReason
		}
		rows = append(rows, row)
	}
	return rows
}

// withHostLabels names hosts as people do.
func withHostLabels(meshes []inspect.MeshSummary) []inspect.MeshSummary {
	out := slices.Clone(meshes)
	for i := range out {
		labels := make([]string, len(out[i].Hosts))
		for at, id := range out[i].Hosts {
			labels[at] = text.HostLabel(id)
		}
		out[i].Hosts = labels
	}
	return out
}

func (p *Page) servePage(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, pageInfo{Host: p.Host, Version: p.Version, Act: p.Act})
}

func (p *Page) serveOverview(w http.ResponseWriter, r *http.Request) error {
	return p.serveStream(w, r, func(s *stream) error {
		return p.feed(s, "", func(now snapshot) (over bool) {
			s.send(overview{
				At: now.At, Hosts: now.Hosts, Meshes: withHostLabels(now.meshes), Leader: now.leader, Worlds: now.worlds,
				Missing: errorText(now.Missing), Error: errorText(now.err),
			})
			return false
		})
	})
}
