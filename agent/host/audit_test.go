package host_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// The log of a host has a line, and the bus an event, with the sender of each order.
func TestAudit_namesTheSenderOfEachOrder(t *testing.T) {
	t.Parallel()
	log := &testkit.Transcript{}
	r := newRig(t, allowExec, func(o *host.Options) {
		o.Allow = []string{"/bin/sh"}
		o.Log = zerolog.New(log)
	})
	space := r.client.Space()
	audits, orders := make(chan actor.Event, 100), make(chan actor.Event, 100)
	for kind, to := range map[string]chan actor.Event{actor.KindAudit: audits, actor.KindHost: orders} {
		_, err := r.client.Bus().Control().Subscribe(space.Events(kind, subjects.MeshID{}), func(m bus.Msg) {
			if e, err := actor.DecodeEventFrom(space, m); err == nil {
				to <- e
			}
		})
		require.NoError(t, err)
	}
	require.NoError(t, r.client.Bus().Control().Flush(testkit.Soon(t)))
	anon := func(verb, body string, by ...string) {
		from := append(by, "o-eve.x")[0]
		subject := "castnet.v1.default.hw." + r.host.ID().String() + "." + verb + "." + from
		_, err := r.client.Bus().Control().Request(testkit.Soon(t), bus.Msg{Subject: subject, Data: []byte(body)})
		require.NoError(t, err)
	}
	m := r.shell(t, "sleep 60")
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	own := r.client.Sender().String()
	next := func(want ...string) {
		t.Helper()
		e := testkit.Next(t, audits)
		require.Equal(t, want, []string{e.Step, e.By, e.Object, e.Status})
		line := log.Find(t, `"act":"`+strings.TrimPrefix(e.Step, "audit.")+`"`)
		var logged struct {
			Level string
			Audit map[string]string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &logged), line)
		require.Equal(t, []string{"info", e.By, e.Object, e.Status, e.Reason}, []string{logged.Level,
			logged.Audit["by"], logged.Audit["object"], logged.Audit["answer"], logged.Audit["reason"]}, line)
	}

	anon("cordon", `{"cordon":true}`, "u-eve.x")
	next("audit.cordon", "u-eve.x", "close", "refused")
	anon("cordon", `{"cordon":true}`)
	next("audit.cordon", "o-eve.x", "close", "granted")
	require.Equal(t, "o-eve.x", testkit.Next(t, orders).By)
	anon("create", `{}`)
	next("audit.create", "o-eve.x", "", "refused")
	anon("take", `{"force":true}`)
	next("audit.take", "o-eve.x", "force", "refused")
	anon("exec", `{"command":["/bin/sh","-c","echo secret"],"timeout":60000000000}`)
	next("audit.exec", "o-eve.x", "/bin/sh", "pending")
	next("audit.exec", "o-eve.x", "/bin/sh", "granted")
	_, err = agent.TakeHost.Call(t.Context(), r.agent(), agent.TakeHostRequest{})
	require.NoError(t, err)
	next("audit.take", own, "", "granted")
	anon("stop-all", `{}`)
	next("audit.stop-all", "o-eve.x", "", "refused")
	_, err = agent.Keepalive.Call(t.Context(), r.agent(), agent.Lease{ID: m.ID.String(), TTL: time.Minute,
		Claim: agent.Claim{Epoch: 9, Owner: r.client.ID().Actor("thief")}})
	require.NoError(t, err)
	e := testkit.Next(t, audits)
	require.Equal(t, []string{"audit.takeover", own, "granted"}, []string{e.Step, e.By, e.Status})
	require.Contains(t, e.Object, m.ID.String()+" from ")
	log.Find(t, `"act":"takeover"`)
	anon("stop", `{"id":"`+m.ID.String()+`","grace":1000000}`)
	next("audit.stop", "o-eve.x", m.ID.String(), "pending")
	next("audit.stop", "o-eve.x", m.ID.String(), "granted")
	_, err = agent.StopAll.CallUrgent(t.Context(), r.agent(), agent.StopAllRequest{})
	require.NoError(t, err)
	next("audit.stop-all", own, "", "granted") // at once: no proc is left
	for _, step := range []string{"host.shutdown.attempt", "host.shutdown.success"} {
		e := testkit.Next(t, orders)
		require.Equal(t, []string{step, own}, []string{e.Step, e.By})
	}
	require.NotContains(t, log.String(), "echo secret")
}
