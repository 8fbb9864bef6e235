package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/stacks"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

const (
	actTimeout  = 30 * time.Second // but for a restart, which goes rank by rank
	readTimeout = 10 * time.Second // of a body
	maxActBody  = 1 << 20
	maxStacked  = 1024 // ranks of one act: each answer is a profile
)

// act is the body of POST /api/act.
type act struct {
	Verb     string          `json:"verb"` // cast, stack, restart or stop
	Mesh     string          `json:"mesh"`
	Region   string          `json:"region"` // "": all
	Actor    string          `json:"actor"`  // of a cast
	Endpoint string          `json:"endpoint"`
	Body     json.RawMessage `json:"body"`
}

// serveAct runs an act on a region (PAGE-4).
func (p *Page) serveAct(w http.ResponseWriter, r *http.Request) error {
	if !p.Act {
		return &statusError{http.StatusForbidden,
			errors.New("the page is read-only: start hostd with --ui-act, or castnet ui with --act")}
	}
	a, err := readAct(w, r)
	if err != nil {
		return badRequest("cannot read the act: %w", err)
	}
	ctx := r.Context()
	if a.Verb != "restart" {
		within, cancel := context.WithTimeout(ctx, actTimeout)
		defer cancel()
		ctx = within
	} else if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	conn, err := p.conn(ctx)
	if err != nil {
		return err
	}
	m, err := conn.Lookup(ctx, a.Mesh) // not as of the last sample
	if err != nil {
		return err
	}
	if a.Region != "" {
		m = m.Select(a.Region)
		if err := m.Err(); err != nil {
			return badRequest("%w", err)
		}
	}
	output, err := a.run(ctx, m)
	if err != nil {
		return err
	}
	return writeJSON(w, map[string]string{"output": output})
}

// readAct reads an act that comes in time.
func readAct(w http.ResponseWriter, r *http.Request) (a act, err error) {
	ctl := http.NewResponseController(w)
	if err := ctl.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
		return a, err
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxActBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return a, err
	}
	return a, ctl.SetReadDeadline(time.Time{}) // else the act would end with it
}

func (a act) run(ctx context.Context, of mesh.ProcMesh) (output string, err error) {
	done := fmt.Sprintf("%s: %d ranks", a.Verb, of.Region().NumRanks())
	switch a.Verb {
	case "cast":
		return a.cast(ctx, of)
	case "stack":
		return stack(ctx, of)
	case "restart":
		return done, of.Restart(ctx, mesh.RollingRestart{Reason: "restarted on the page"})
	case "stop":
		return done, of.StopWithReason(ctx, "stopped on the page")
	}
	return "", badRequest("act %q: want cast, stack, restart or stop", a.Verb)
}

// cast gathers the answers of a region, one line a rank.
func (a act) cast(ctx context.Context, of mesh.ProcMesh) (string, error) {
	var message any
	if len(a.Body) > 0 {
		var err error
		message, err = wire.JSONValue(a.Body)
		if err != nil {
			return "", badRequest("the message is not JSON: %w", err)
		}
	}
	actors, err := mesh.Find[any](ctx, of, a.Actor)
	if err != nil {
		return "", err
	}
	all, err := cast.Gather(ctx, actors, actor.NewEndpoint[any, any, any](a.Endpoint), message)
	partial, partly := errors.AsType[*cast.CoverageError](err)
	if err != nil && !partly {
		return "", err
	}
	var out strings.Builder
	without := map[int]bool{} // ranks that gave no value
	if partly {
		c := partial.Coverage
		for _, f := range slices.Concat(c.Failed, c.Missing, c.NotAsked) {
			without[f.Rank] = true
		}
	}
	for view, v := range all.Values() {
		if without[view] {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(err.Error())
		}
		base, _ := of.Region().BaseRank(view) // it cannot fail: view is a rank of the region
		fmt.Fprintf(&out, "%s  %s\n", inspect.Point(of.Describe().Extent, base), text)
	}
	if partly {
		fmt.Fprintln(&out, partial.Error())
	}
	return out.String(), nil
}

// stack returns the stacks of the goroutines of a region, equal ones once.
func stack(ctx context.Context, of mesh.ProcMesh) (string, error) {
	if n := of.Region().NumRanks(); n > maxStacked {
		return "", badRequest("%d ranks: want a region of at most %d", n, maxStacked)
	}
	found, err := of.Profile(ctx, agent.ProfileRequest{Kind: agent.ProfileGoroutines})
	partial, partly := errors.AsType[*cast.CoverageError](err)
	if err != nil && !partly {
		return "", err
	}
	profiles := map[int][]byte{}
	for view, data := range found.Values() {
		if base, err := of.Region().BaseRank(view); err == nil && len(data) > 0 {
			profiles[base] = data
		}
	}
	grouped, err := stacks.Group(of.Describe().Extent, profiles, false)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := stacks.Print(&out, grouped); err != nil {
		return "", err
	}
	if partly {
		fmt.Fprintln(&out, partial.Error())
	}
	return out.String(), nil
}
