package events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/shape"
)

func TestEvents_showTheRootCauseInOneLine(t *testing.T) {
	code := 3
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	e := actor.Event{
		Kind: actor.KindActor, Status: "failed", Mesh: "demo-000000000000m", Rank: 2,
		Actor: "counter-000000000000n", Type: "counter", Name: "trainer",
		Host: "b-000000000000b", Step: "rank.drop", Reason: "it broke\ntwice", At: at, ExitCode: &code,
		StderrTail: []string{"oh"},
		Cause: &actor.Event{Kind: actor.KindActor, Status: "failed", Reason: "second",
			Cause: &actor.Event{Kind: actor.KindActor, Status: "failed", Reason: "first"}},
	}
	a := &output.Printer{}
	v := NewView(a, nil, true)
	v.extents[e.Mesh] = shape.Of("host", 2).With("gpu", 2)
	require.Equal(t, "host=1,gpu=0", v.position(t.Context(), e))
	require.Equal(t, "05:06:07 actor trainer [host=1,gpu=0] counter failed rank.drop on b: it broke … ← "+
		"actor failed: first", v.line(e, "host=1,gpu=0"))
	require.Equal(t, []string{
		"about: demo-000000000000m/2.0/counter-000000000000n (type counter), at " + at.Format(time.RFC3339Nano),
		"host: b-000000000000b", "exit code: 3",
		"reason: it broke", "reason: twice", "caused by: actor failed: second",
		"caused by: actor failed: first", "| oh",
	}, details(e))
	own := e
	own.Kind, own.Point = actor.KindMesh, "host=1/2,gpu=0/2"
	require.Equal(t, "host=1,gpu=0", v.position(t.Context(), own), "the controller's event names the rank's place")
	own.Point = ""
	require.Empty(t, v.position(t.Context(), own), "or of its mesh")
	e.Count = 2
	require.Equal(t, "host=1,gpu=*", v.position(t.Context(), e))
	v.refreshedAt = time.Now()
	e.Mesh = "gone-000000000000m"
	require.Equal(t, "2-3", v.position(t.Context(), e),
		"its mesh is not known, and hosts were asked a moment ago")
	e.Rank, e.Count = 1000, 1<<40
	require.Equal(t, "1000-1099511628775", v.position(t.Context(), e), "a forged event is shown in a few bytes")
}

func TestEvents_showWhoGaveAnOrder(t *testing.T) {
	e := actor.Event{
		Kind: actor.KindAudit, Status: "refused", Mesh: "a-000000000000a", Actor: "agent", Step: "audit.stop",
		Object: "demo-000000000000m", By: "u-eve.x", Reason: "no",
		At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local),
	}
	v := NewView(&output.Printer{}, nil, true)
	require.Equal(t, "05:06:07 audit a agent refused audit.stop demo-000000000000m by u-eve: no",
		v.line(e, v.position(t.Context(), e)))
	require.Contains(t, details(e), "by: u-eve.x")
}

func TestDetails_showTheLastWordsOnce(t *testing.T) {
	require.Equal(t, []string{"reason: exited with code 1", "| no luck"}, details(actor.Event{
		Reason: "exited with code 1\n  stderr: no luck", StderrTail: []string{"no luck"},
	})[1:])
}
