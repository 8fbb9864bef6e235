package events

import (
	"testing"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/shape"
)

func TestGolden_events(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 7, 0, time.Local)
	all := []actor.Event{
		{Kind: actor.KindHost, Status: "cordoned", Host: "node-a-0123456789abc", Name: "node-a",
			Step: "host.cordon", Reason: "new disks", At: at},
		{
			Kind: actor.KindActor, Status: "failed", Mesh: "demo-7kd93x0b5m2qa", Rank: 2,
			Actor: "counter-0123456789abc", Name: "demo", Host: "node-b-0123456789abd",
			Reason: "panicked: runtime error: index out of range [5] with length 3", At: at.Add(time.Second),
			Cause: &actor.Event{Kind: actor.KindActor, Status: "failed", Reason: "a child has failed"},
		},
		{Kind: actor.KindProc, Status: "failed", Mesh: "demo-7kd93x0b5m2qa", Rank: 2, Count: 2, Name: "demo",
			Signal: 9, Reason: "killed by signal 9", At: at.Add(2 * time.Second)},
	}
	golden.Check(t, "events", func(out *output.Printer) error {
		v := NewView(out, nil, false)
		v.extents["demo-7kd93x0b5m2qa"] = shape.Of("host", 2).With("gpu", 2)
		for _, e := range all {
			if err := v.Show(t.Context(), e); err != nil {
				return err
			}
		}
		return nil
	})
}
