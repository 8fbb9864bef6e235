package events

import (
	"errors"
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

func TestGolden_eventsInTrouble(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 7, 0, time.Local)
	const id, host = "pretrain-7kd93x0b5m2qa", "gpu-node-0043-0123456789abe"
	all := []actor.Event{
		{Kind: actor.KindHost, Status: "suspect", Host: "gpu-node-0042-0123456789abd", Name: "gpu-node-0042",
			Step: "host.suspect", Reason: "no heartbeat for 2.1s", At: at},
		{Kind: actor.KindProc, Status: "failed", Mesh: id, Rank: 16, Count: 8, Name: "pretrain", Host: host,
			Reason: "host gpu-node-0043 is dead: no heartbeat for 4.5s, and no answer to 3 pings", At: at},
		{Kind: actor.KindActor, Status: "failed", Mesh: id, Rank: 16, Count: 8, Actor: "trainer-0123456789abc", Name: "pretrain",
			Host: host, Reason: "its proc has ended", At: at,
			Cause: &actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: id, Rank: 16, Count: 8,
				Reason: "host gpu-node-0043 is dead"}},
		{Kind: actor.KindProc, Status: "failed", Mesh: id, Rank: 24, Name: "pretrain", Host: "gpu-node-0044-0123456789abf",
			Step: "proc.exit.none", At: at.Add(time.Second), Reason: "state directory /var/lib/castnet: no space left on device"},
	}
	golden.Check(t, "events-trouble", func(out *output.Printer) (err error) {
		v := NewView(out, nil, true)
		v.extents[id] = shape.Of("host", 4).With("gpu", 8)
		for _, e := range all {
			err = errors.Join(err, v.Show(t.Context(), e))
		}
		return err
	})
}
