package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

// maxShown bounds the memory of printed ends.
const maxShown = 8192

// View prints events. It belongs to one goroutine.
type View struct {
	out         *output.Printer
	net         *mesh.Net
	verbose     bool
	shown       map[string]bool         // printed ends of ranks: a past one may also arrive as a new event
	extents     map[string]shape.Extent // of meshes, for coordinates
	refreshedAt time.Time
}

func NewView(out *output.Printer, conn *mesh.Net, verbose bool) *View {
	return &View{
		out: out, net: conn, verbose: verbose, shown: map[string]bool{}, extents: map[string]shape.Extent{},
	}
}

// Show prints an event, unless it repeats a printed end.
func (v *View) Show(ctx context.Context, e actor.Event) error {
	if e.Terminal() && e.Kind != actor.KindMesh && e.Kind != actor.KindHost { // those can end again
		key := fmt.Sprint(e.Kind, e.Mesh, e.Rank, e.Count, e.Gen, e.Actor, e.Nth)
		if v.shown[key] {
			return nil
		}
		if len(v.shown) < maxShown {
			v.shown[key] = true
		}
	}
	if v.out.Format != output.Table {
		return v.out.WriteJSONLine(e)
	}
	err := v.out.Println(4, v.line(e, v.position(ctx, e)))
	if v.verbose {
		for _, line := range details(e) {
			err = errors.Join(err, v.out.Println(6, "    "+line))
		}
	}
	return err
}

// line formats an event in one line.
func (v *View) line(e actor.Event, at string) string {
	parts := []string{
		e.At.Local().Format(time.TimeOnly), fmt.Sprintf("%-5s", e.Kind), cmp.Or(e.Name, text.Label(e.Mesh)),
	}
	if at != "" {
		parts = append(parts, "["+at+"]")
	}
	if e.Actor != "" {
		parts = append(parts, text.Label(e.Actor))
	}
	parts = append(parts, v.out.PaintStatus(e.Status))
	if e.Step != "" {
		parts = append(parts, e.Step)
	}
	if e.Object != "" {
		parts = append(parts, text.Shorten(e.Object, 60))
	}
	if e.Host != "" && e.Kind != actor.KindHost {
		parts = append(parts, "on "+text.HostLabel(e.Host))
	}
	if e.By != "" {
		principal, _, _ := strings.Cut(e.By, ".")
		parts = append(parts, "by "+principal)
	}
	s := strings.Join(parts, " ")
	if e.Reason != "" {
		s += ": " + text.Shorten(e.Reason, 120)
	}
	if e.Cause != nil {
		s += " ← " + text.Shorten(e.RootCause().String(), 120)
	}
	return s
}

// details returns the parts that line omits.
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
	at := "at " + e.At.Format(time.RFC3339Nano)
	if about != "" {
		at = "about: " + about + ", " + at
	}
	out = append(out, at)
	if e.Host != "" {
		out = append(out, "host: "+e.Host)
	}
	if e.By != "" {
		out = append(out, "by: "+e.By)
	}
	if e.Signal != 0 {
		out = append(out, fmt.Sprintf("signal: %d", e.Signal))
	} else if e.ExitCode != nil {
		out = append(out, fmt.Sprintf("exit code: %d", *e.ExitCode))
	}
	if strings.Contains(e.Reason, "\n") {
		for line := range strings.Lines(e.Reason) {
			if len(e.StderrTail) > 0 && strings.HasPrefix(line, "  stderr: ") {
				continue // the tail has it
			}
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

// position returns the coordinates of an event, or ranks for an unknown mesh.
func (v *View) position(ctx context.Context, e actor.Event) string {
	// an event about an agent, or a whole host or mesh
	if e.Kind == actor.KindAudit || e.Kind == actor.KindHost ||
		e.Kind == actor.KindMesh && e.Count == 0 && e.Point == "" {
		return ""
	}
	last := e.Rank + max(e.Count, 1) - 1
	base, known := v.extent(ctx, e.Mesh)
	if known && 0 <= e.Rank && e.Rank <= last && last < base.NumRanks() {
		ranks := make([]int, 0, last-e.Rank+1)
		for rank := e.Rank; rank <= last; rank++ {
			ranks = append(ranks, rank)
		}
		if len(ranks) == 1 {
			return inspect.Point(base, ranks[0])
		}
		return shape.Describe(base, ranks)
	}
	if last > e.Rank {
		return fmt.Sprintf("%d-%d", e.Rank, last)
	}
	return strconv.Itoa(e.Rank)
}

// extentTimeout bounds a query for the extents of meshes.
const extentTimeout = 2 * time.Second

// refreshInterval is the time between queries for an unknown mesh, because its hosts learn of it
// after its owner's event.
const refreshInterval = time.Second

// extent returns the extent of a mesh. It asks the hosts for unknown ones, at intervals.
func (v *View) extent(ctx context.Context, id string) (shape.Extent, bool) {
	if e, known := v.extents[id]; known || time.Since(v.refreshedAt) < refreshInterval {
		return e, known
	}
	within, cancel := context.WithTimeout(ctx, extentTimeout)
	defer cancel()
	meshes, err := v.net.Meshes(within)
	if err == nil {
		clear(v.extents) // forget ended meshes
	}
	for _, m := range meshes {
		v.extents[m.Procs.ID().String()] = m.Procs.Extent()
	}
	v.refreshedAt = time.Now()
	e, known := v.extents[id]
	return e, known
}
