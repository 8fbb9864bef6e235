package agent_test

import (
	"bytes"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// A teller tells its subscribers of an event whenever it is asked to.
type teller struct{ agent.Subscribers }

var (
	tellerType = actor.NewType[*teller, actor.None]("teller")
	listen     = actor.NewEndpoint[*teller, agent.StreamRequest, actor.None]("listen")
	tell       = actor.NewEndpoint[*teller, actor.None, int]("tell")
)

func tellers() actor.Def {
	return tellerType.Define(func(*actor.Context, actor.None) (*teller, error) { return &teller{}, nil },
		listen.Handle(func(t *teller, ctx *actor.Context, s agent.StreamRequest) (actor.None, error) {
			return actor.None{}, t.Add(ctx, s, 0, nil)
		}),
		tell.Handle(func(t *teller, ctx *actor.Context, _ actor.None) (int, error) {
			t.Publish(ctx, "mesh", actor.Event{Status: string(actor.Running)})
			return t.Len(), nil
		}))
}

func TestSubscribers_unreachableOneIsDroppedWithAWarning(t *testing.T) {
	registry, err := actor.NewRegistry(tellers())
	require.NoError(t, err)
	id, err := subjects.NewMeshID("tellers")
	require.NoError(t, err)
	var said bytes.Buffer // written on the teller's turn, which an answer ends
	p, err := actor.NewProc(t.Context(), actor.Options{
		ID: subjects.ProcID{Mesh: id}, Bus: bustest.Open(t, bustest.Server(t)), Registry: registry, Log: zerolog.New(&said),
	})
	require.NoError(t, err)
	testkit.Close(t, p.Close)
	ref, err := actor.Spawn(t.Context(), p, tellerType, "teller", actor.None{})
	require.NoError(t, err)

	for level, hold := range map[string]func(*actor.Port[actor.Event]){
		"debug": func(port *actor.Port[actor.Event]) { port.Close() },
		"warn":  func(*actor.Port[actor.Event]) {}, // it is open, and nobody reads it
	} {
		port := actor.OpenPort[actor.Event](p)
		_, err = listen.Call(t.Context(), ref, agent.StreamRequest{To: port.Ref()})
		require.NoError(t, err)
		hold(port)
		said.Reset()
		for left := 1; left > 0; {
			left, err = tell.Call(t.Context(), ref, actor.None{})
			require.NoError(t, err)
		}
		require.Contains(t, said.String(), `"level":"`+level+`"`)
		require.Contains(t, said.String(), "dropping subscriber: send failed")
		port.Close()
	}
}
