package proc

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/subjects"
)

func TestProcAgent_remembersTheNewestEndedActors_PROC4(t *testing.T) {
	const maxEnded = 20
	a := &procAgent{table: agent.NewTable(), maxEnded: maxEnded}
	for n := range maxEnded + 10 {
		name := strconv.Itoa(n)
		_, err := a.table.Create(agent.ResourceSpec{ID: name, Ranks: []int{tableRank}})
		require.NoError(t, err)
		a.recordEnd(name, agent.Status{Phase: agent.Stopped})
		a.recordEnd(name, agent.Status{Phase: agent.Failed}) // the first word counts
	}
	require.Len(t, a.table.States(""), maxEnded)
	require.Empty(t, a.table.States("9"))
	require.Len(t, a.table.States("10"), 1)
}

func TestProcAgent_endWithTheProcIsNotAnOwnEnd(t *testing.T) {
	id, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	ended := actor.Event{Kind: actor.KindActor, Status: string(actor.Stopped), Actor: "a",
		Mesh: id.String(), Rank: 1}
	require.True(t, isOwnEnd(ended))
	ended.Cause = &actor.Event{Kind: actor.KindProc, Status: string(actor.Failed), Mesh: ended.Mesh, Rank: 2}
	require.True(t, isOwnEnd(ended), "it does not survive another proc")
	ended.Cause.Rank = 1
	require.False(t, isOwnEnd(ended))
	ended.Status = string(actor.Running)
	require.False(t, isOwnEnd(ended))
}

// A slow server is no reason to end: the host gives a proc its time.
func TestConnect_retriesASilentServer(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	defer served.Wait()
	defer l.Close()
	served.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if n < 2 {
				continue
			}
			s, err := srv.InProcessConn()
			if err != nil {
				return
			}
			served.Go(func() { _, _ = io.Copy(s, c); s.Close() })
			served.Go(func() { _, _ = io.Copy(c, s); c.Close() })
		}
	})
	o := bus.Options{URL: "nats://" + l.Addr().String(), Token: srv.Token(),
		ConnectTimeout: 500 * time.Millisecond}
	b, err := connect(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, b.Close(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	o.URL = "nats://" + silent.Addr().String()
	_, err = connect(ctx, o)
	require.Error(t, err)
	require.Error(t, ctx.Err(), "until its time is over")
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o.ConnectTimeout = time.Nanosecond // the dial does not end in time
	_, err = connect(ctx, o)
	require.Error(t, err)
	require.Error(t, ctx.Err(), "until its time is over")
}
