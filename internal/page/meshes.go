package page

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

// meshHeader is the first line of GET /api/meshes/ID, and comes again when it has changed.
type meshHeader struct {
	Mesh     meshInfo `json:"mesh"`
	Statuses []string `json:"statuses"` // by the byte of the first column
	Columns  []column `json:"columns"`
}

// meshInfo is a mesh without its ranks.
type meshInfo struct {
	ID          string        `json:"id"`
	Label       string        `json:"label"`
	Name        string        `json:"name"` // in commands: the label, if no other live mesh has it
	Kind        string        `json:"kind"` // mesh or world
	Labels      []string      `json:"labels"`
	Sizes       []int         `json:"sizes"`
	Phase       string        `json:"phase"`
	Answer      string        `json:"answer"`
	Causes      []string      `json:"causes"`
	Next        []string      `json:"next"`
	Suggestions []string      `json:"suggestions"`
	Hosts       int           `json:"hosts"`
	HostsDown   int           `json:"hosts_down"` // that are not alive
	Owner       inspect.Owner `json:"owner"`
}

// column is a value of each rank: one byte, but for the status that of logByte.
type column struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	of   func(inspect.ProcCounters) float64
}

// columns returns what a frame has of each rank. A rank that was not asked for its messages, or did
// not answer, has values that are not numbers.
func columns() []column {
	said := func(p inspect.ProcCounters, v float64) float64 {
		if p.Unasked || p.Silent {
			return math.NaN()
		}
		return v
	}
	return []column{
		{Name: "status"},
		{"queued", "messages", func(p inspect.ProcCounters) float64 { return said(p, float64(p.Queued)) }},
		{"latency", "µs", func(p inspect.ProcCounters) float64 {
			return said(p, float64(p.Latency.Microseconds()))
		}},
		{"restarts", "", func(p inspect.ProcCounters) float64 { return float64(p.Gen) }},
		{"rate", "messages/s", func(p inspect.ProcCounters) float64 { return said(p, p.Rate) }},
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

// unknownByte is the byte of a value that is not known.
const unknownByte = math.MaxUint8

// logByte returns round(8·log2(1+v)), 254 at most, and unknownByte for what is not a number.
func logByte(v float64) byte {
	if math.IsNaN(v) {
		return unknownByte
	}
	return byte(min(math.Round(8*math.Log2(1+max(v, 0))), unknownByte-1))
}

// headerInterval is the time between two looks at owner, hosts and actors of a watched mesh,
// without an event.
const headerInterval = 5 * time.Second

// meshReport is what a sample knows of a mesh that somebody watches.
type meshReport struct {
	header  meshHeader
	asked   time.Time // when the header was asked for
	err     error     // of that question; the header is older
	casts   []inspect.Cast
	silent  string // region of the procs that tell nothing of casts
	more    int    // casts that did not fit
	castErr error  // why there are none
}

// report asks the procs of the wanted ranks of a mesh for casts, or all with nil, and if due all
// parties for its header.
func report(ctx context.Context, conn *mesh.Net, inv mesh.Inventory, id string, last meshReport,
	headerDue bool, wanted func(rank int) bool) meshReport {
	now := meshReport{header: last.header, asked: last.asked, err: last.err, casts: []inspect.Cast{}}
	var asking sync.WaitGroup
	m, alive := liveMesh(inv, id)
	if alive {
		asking.Go(func() { now.casts, now.silent, now.more, now.castErr = inspect.Casts(ctx, m, wanted) })
	}
	if headerDue || !alive {
		now.asked = time.Now()
		header, err := describe(ctx, conn, inv, id, wanted)
		now.err = err
		if err == nil {
			now.header = header
		}
	}
	asking.Wait()
	return now
}

// liveMesh finds a live mesh by its ID.
func liveMesh(inv mesh.Inventory, id string) (mesh.MeshState, bool) {
	i := slices.IndexFunc(inv.Meshes, func(m mesh.MeshState) bool {
		return m.Alive() && m.Procs.ID().String() == id
	})
	if i < 0 {
		return mesh.MeshState{}, false
	}
	return inv.Meshes[i], true
}

// frameLine is the ranks of a mesh at a time, and the casts that run.
type frameLine struct {
	At           time.Time      `json:"at"`
	Ranks        string         `json:"ranks"` // base64 of encodeRanks
	Casts        []inspect.Cast `json:"casts"`
	MoreCasts    int            `json:"more_casts,omitempty"`
	CastsSilent  string         `json:"casts_silent,omitempty"`  // region of procs that tell of none
	CastsMissing string         `json:"casts_missing,omitempty"` // why there are none
	Part         *part          `json:"part,omitempty"`          // that was asked, of a large mesh
	Missing      string         `json:"missing,omitempty"`       // why the header is older
	Error        string         `json:"error,omitempty"`         // of the last sample; the rest is older
}

func (p *Page) serveMesh(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("mesh")
	ctx, cancel := context.WithTimeout(r.Context(), sampleTimeout)
	defer cancel()
	conn, err := p.conn(ctx)
	if err != nil {
		return err
	}
	now := p.sampler.latest()
	m, alive := liveMesh(now.inventory, id)
	if now.err != nil || !alive {
		now.inventory, err = conn.Inventory(ctx)
		if err != nil {
			return err
		}
		m, alive = liveMesh(now.inventory, id)
	}
	region := r.FormValue("region")
	if alive && region != "" {
		if _, err := shape.Select(m.Procs.Extent(), region); err != nil {
			return badRequest("%w", err)
		}
	}
	var wanted func(rank int) bool
	if limits := (inspect.Sampler{MaxAsked: p.maxAsked}); limits.Partial(now.inventory) {
		wanted = func(int) bool { return false } // the next sample asks some
	}
	first, err := describe(ctx, conn, now.inventory, id, wanted)
	if err != nil {
		return err
	}
	return p.serveStream(w, r, func(s *stream) error {
		f := meshFeed{stream: s, header: first}
		s.send(first)
		return p.feed(s, interest{first.Mesh.ID, region}, f.show)
	})
}

// describe asks for a mesh, and of its procs those of the wanted ranks, or all with nil. The
// Inventory need not have an ended mesh.
func describe(
	ctx context.Context, conn *mesh.Net, inv mesh.Inventory, id string, wanted func(rank int) bool,
) (h meshHeader, err error) {
	var v inspect.View
	if m, alive := liveMesh(inv, id); alive {
		v, err = inspect.MeshOf(ctx, conn, inv, m, wanted)
	} else {
		v, _, err = inspect.Mesh(ctx, conn, id)
	}
	if err != nil {
		return meshHeader{}, err
	}
	x := v.Explanation()
	h = meshHeader{
		Statuses: statuses(), Columns: columns(),
		Mesh: meshInfo{
			ID: v.Mesh, Label: v.Label, Name: v.Mesh, Kind: "mesh", Labels: []string{}, Sizes: []int{},
			Phase: v.Phase, Answer: x.Answer, Next: firstLines(x.Next),
			Suggestions: firstLines(x.Suggestions),
			Hosts:       len(v.Hosts), HostsDown: len(v.UnhealthyHosts()), Owner: v.Owner,
		},
	}
	for _, d := range v.Shape.Dims() {
		h.Mesh.Labels = append(h.Mesh.Labels, d.Label)
		h.Mesh.Sizes = append(h.Mesh.Sizes, d.Size)
	}
	if v.World != nil {
		h.Mesh.Kind = "world"
	}
	causes := make([]string, len(x.Causes))
	for i, c := range x.Causes {
		causes[i] = c.String()
	}
	h.Mesh.Causes = firstLines(causes)
	if m, err := inv.Lookup(v.Label); err == nil && m.ID().String() == v.Mesh {
		h.Mesh.Name = v.Label
	}
	return h, nil
}

// firstLines bounds lines for people.
func firstLines(all []string) []string {
	if len(all) <= inspect.MaxReasons {
		return all
	}
	more := fmt.Sprintf("and %d more", len(all)-inspect.MaxReasons)
	return append(slices.Clone(all[:inspect.MaxReasons]), more)
}

// meshFeed is the stream of one mesh.
type meshFeed struct {
	*stream
	header meshHeader // that was sent last
}

// show sends the ranks of a snapshot, and the header if it has changed. It reports whether the
// mesh has ended.
func (f *meshFeed) show(now snapshot) (over bool) {
	r := now.reports[f.header.Mesh.ID]
	if r.header.Mesh.ID != "" && !reflect.DeepEqual(f.header.Mesh, r.header.Mesh) {
		f.header = r.header
		f.send(f.header)
	}
	end := ""
	if inspect.Ended(f.header.Mesh.Phase) {
		end = f.header.Mesh.Answer
	}
	_, none := errors.AsType[*mesh.NotFoundError](r.err)
	if none && now.err == nil && now.inventory.Err() == nil {
		end = "no host knows the mesh any more"
	}
	if end == "" {
		f.send(f.frame(now, r))
		return false
	}
	f.send(map[string]string{"ended": end})
	return true
}

// frame returns the ranks and casts of a snapshot.
func (f *meshFeed) frame(now snapshot, r meshReport) frameLine {
	ranks := 1
	for _, n := range f.header.Mesh.Sizes {
		ranks *= n
	}
	frame := encodeRanks(now.Procs, f.header.Mesh.ID, ranks)
	var asked *part
	if of, is := now.parts[f.header.Mesh.ID]; is && of.Asked < of.Live {
		asked = &of
	}
	return frameLine{
		Part: asked,
		At:   now.At, Ranks: base64.StdEncoding.EncodeToString(frame), Casts: r.casts, MoreCasts: r.more,
		CastsSilent: r.silent, CastsMissing: errorText(r.castErr), Missing: errorText(r.err),
		Error: errorText(now.err),
	}
}

// errorText is the text of an error; none is empty.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
