package page

import (
	"cmp"
	"context"
	"encoding/base64"
	"math"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// meshHeader is the first line of GET /api/meshes/ID, and comes again when it has changed.
type meshHeader struct {
	Mesh     meshInfo `json:"mesh"`
	Statuses []string `json:"statuses"` // by the byte of the first column
	Columns  []column `json:"columns"`
}

// meshInfo is a mesh without its ranks.
type meshInfo struct {
	ID          string         `json:"id"`
	Label       string         `json:"label"`
	Kind        string         `json:"kind"` // mesh or world
	Labels      []string       `json:"labels"`
	Sizes       []int          `json:"sizes"`
	Phase       string         `json:"phase"`
	Answer      string         `json:"answer"`
	Causes      []string       `json:"causes"`
	Next        []string       `json:"next"`
	Suggestions []string       `json:"suggestions"`
	Hosts       []inspect.Host `json:"hosts"`
	Owner       inspect.Owner  `json:"owner"`
}

// column is a value of each rank: one byte, round(8·log2(1+v)), but for the status.
type column struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	of   func(inspect.ProcCounters) float64
}

// columns returns what a frame has of each rank.
func columns() []column {
	return []column{
		{Name: "status"},
		{"queued", "messages", func(p inspect.ProcCounters) float64 { return float64(p.Queued) }},
		{"latency", "µs", func(p inspect.ProcCounters) float64 { return float64(p.Latency.Microseconds()) }},
		{"restarts", "", func(p inspect.ProcCounters) float64 { return float64(p.Gen) }},
		{"rate", "messages/s", func(p inspect.ProcCounters) float64 { return p.Rate }},
		{"cpu", "%", func(p inspect.ProcCounters) float64 { return p.CPU }},
		{"memory", "MiB", func(p inspect.ProcCounters) float64 { return float64(p.Memory) / (1 << 20) }},
	}
}

// statuses returns the names of a rank's statuses: silent is a running rank that does not answer.
func statuses() []string {
	return []string{
		agent.Unknown.String(), agent.Running.String(), agent.Initializing.String(), agent.ShuttingDown.String(),
		agent.Stopped.String(), agent.Failed.String(), silent,
	}
}

const silent = "silent"

// encodeRanks returns a frame: the bytes of each column by rank.
func encodeRanks(procs []inspect.ProcCounters, id string, ranks int) []byte {
	names, cols := statuses(), columns()
	frame := make([]byte, ranks*len(cols))
	for _, p := range procs {
		if p.Mesh != id || p.Rank < 0 || p.Rank >= ranks {
			continue
		}
		status := p.Status
		if p.Silent && status == agent.Running.String() {
			status = silent
		}
		frame[p.Rank] = byte(max(slices.Index(names, status), 0))
		for i, c := range cols[1:] {
			frame[(i+1)*ranks+p.Rank] = logByte(c.of(p))
		}
	}
	return frame
}

// logByte returns round(8·log2(1+v)), 255 at most.
func logByte(v float64) byte {
	if !(v > 0) { // also not a number
		return 0
	}
	return byte(min(math.Round(8*math.Log2(1+v)), math.MaxUint8))
}

// headerInterval is the time between two looks at owner, hosts and actors of a watched mesh.
const headerInterval = 5 * time.Second

// frameLine is the ranks of a mesh at a time.
type frameLine struct {
	At    time.Time `json:"at"`
	Ranks string    `json:"ranks"` // base64 of encodeRanks
	Error string    `json:"error,omitempty"`
}

func (p *Page) serveMesh(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("mesh")
	ctx, cancel := context.WithTimeout(r.Context(), sampleTimeout)
	defer cancel()
	conn, err := p.conn(ctx)
	if err != nil {
		return err
	}
	first, err := describe(ctx, conn, id)
	if err != nil {
		return err
	}
	return p.serveStream(w, r, func(s *stream) error { return p.feedMesh(s, conn, first) })
}

// describe asks for a mesh.
func describe(ctx context.Context, conn *mesh.Net, id string) (meshHeader, error) {
	v, _, err := inspect.Mesh(ctx, conn, id)
	if err != nil {
		return meshHeader{}, err
	}
	x := v.Explanation()
	h := meshHeader{
		Statuses: statuses(), Columns: columns(),
		Mesh: meshInfo{
			ID: v.Mesh, Label: v.Label, Kind: "mesh", Labels: []string{}, Sizes: []int{},
			Phase: v.Phase, Answer: x.Answer, Causes: []string{}, Next: x.Next, Suggestions: x.Suggestions,
			Hosts: v.Hosts, Owner: v.Owner,
		},
	}
	for _, d := range v.Shape.Dims() {
		h.Mesh.Labels = append(h.Mesh.Labels, d.Label)
		h.Mesh.Sizes = append(h.Mesh.Sizes, d.Size)
	}
	if v.World != nil {
		h.Mesh.Kind = "world"
	}
	for _, c := range x.Causes {
		h.Mesh.Causes = append(h.Mesh.Causes, c.String())
	}
	return h, nil
}

// meshFeed is the stream of one mesh.
type meshFeed struct {
	*stream
	conn   *mesh.Net
	header meshHeader
	asked  time.Time // when the header was asked for
	err    error     // of that request; the header is older
}

// feedMesh sends frames, and the header when it changes, until the mesh or the stream ends.
func (p *Page) feedMesh(s *stream, conn *mesh.Net, h meshHeader) error {
	f := meshFeed{stream: s, conn: conn, header: h, asked: time.Now()}
	if !s.send(h) {
		return s.err
	}
	snapshots, end := p.sampler.read()
	defer end()
	idle := time.NewTicker(keepalive)
	defer idle.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return nil
		case <-idle.C:
			if !s.send(struct{}{}) {
				return s.err
			}
		case now := <-snapshots:
			if f.isHeaderOld(now) && f.renew() {
				return nil
			}
			if !s.send(f.frame(now)) {
				return s.err
			}
		}
	}
}

// isHeaderOld reports whether to ask for the header again.
func (f *meshFeed) isHeaderOld(now snapshot) bool {
	known := now.err != nil ||
		slices.ContainsFunc(now.meshes, func(m inspect.MeshSummary) bool { return m.Mesh == f.header.Mesh.ID })
	return !known || f.err != nil || time.Since(f.asked) >= headerInterval
}

// renew asks for the header, and sends it if it has changed. It reports whether the mesh has ended.
func (f *meshFeed) renew() (ended bool) {
	ctx, cancel := context.WithTimeout(f.ctx, sampleTimeout)
	defer cancel()
	next, err := describe(ctx, f.conn, f.header.Mesh.ID)
	f.asked = time.Now()
	f.err = err
	if err != nil {
		return false
	}
	ended = inspect.Ended(next.Mesh.Phase)
	if ended || !reflect.DeepEqual(f.header.Mesh, next.Mesh) {
		f.header = next
		f.send(next)
	}
	if ended {
		f.send(map[string]string{"ended": next.Mesh.Answer})
	}
	return ended
}

// frame returns the ranks of a snapshot.
func (f *meshFeed) frame(now snapshot) frameLine {
	line := frameLine{At: now.At}
	if err := cmp.Or(now.err, f.err); err != nil {
		line.Error = err.Error()
	}
	ranks := 1
	for _, n := range f.header.Mesh.Sizes {
		ranks *= n
	}
	line.Ranks = base64.StdEncoding.EncodeToString(encodeRanks(now.Procs, f.header.Mesh.ID, ranks))
	return line
}
