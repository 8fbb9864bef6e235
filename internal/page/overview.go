package page

import (
	"context"
	"net/http"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/system"
)

// overview is a line of GET /api/overview.
type overview struct {
	At      time.Time                  `json:"at"`
	Hosts   rows[inspect.HostCounters] `json:"hosts"`
	Meshes  rows[meshRow]              `json:"meshes"`
	Ranks   int                        `json:"ranks"`            // of all meshes
	Leader  string                     `json:"leader,omitempty"` // address of the system controller
	Worlds  rows[worldRow]             `json:"worlds"`
	Missing string                     `json:"missing,omitempty"`
	Error   string                     `json:"error,omitempty"` // of the last sample; the rest is older
}

// meshRow is a mesh with the labels of its first hosts.
type meshRow struct {
	inspect.MeshSummary
	HostCount int `json:"host_count"`
}

// maxHostLabels bounds the hosts that a row names.
const maxHostLabels = 3

// worldRow is a world as the system controller knows it.
type worldRow struct {
	Name  string `json:"name"`
	Phase string `json:"phase"`
	Cause string `json:"cause,omitempty"`
}

func (w worldRow) isWell() bool { return w.Phase == string(system.StatusLive) }

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

// withHostLabels names some hosts of each mesh as people do.
func withHostLabels(meshes rows[inspect.MeshSummary]) rows[meshRow] {
	out := rows[meshRow]{Shown: []meshRow{}, Count: meshes.Count, Trouble: meshes.Trouble}
	for _, m := range meshes.Shown {
		row := meshRow{m, len(m.Hosts)}
		row.Hosts = nil
		for _, id := range m.Hosts[:min(len(m.Hosts), maxHostLabels)] {
			row.Hosts = append(row.Hosts, text.HostLabel(id))
		}
		out.Shown = append(out.Shown, row)
	}
	return out
}

// rankCount is the number of ranks of the live meshes of a sample.
func rankCount(l inspect.Sample) (n int) {
	for _, e := range l.Extents {
		n += e.NumRanks()
	}
	return n
}

func (p *Page) servePage(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, pageInfo{Host: p.Host, Version: p.Version, Act: p.Act})
}

func (p *Page) serveOverview(w http.ResponseWriter, r *http.Request) error {
	return p.serveStream(w, r, func(s *stream) error {
		return p.feed(s, interest{}, func(now snapshot) (over bool) {
			s.send(overview{
				At: now.At, Hosts: now.hosts, Meshes: withHostLabels(now.meshes),
				Ranks: rankCount(now.Sample), Leader: now.leader, Worlds: now.worlds,
				Missing: errorText(now.Missing), Error: errorText(now.err),
			})
			return false
		})
	})
}
