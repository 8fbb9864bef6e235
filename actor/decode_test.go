package actor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// long is a text with a part that repeats.
func long(before, again, after string) []byte {
	return []byte(before + strings.Repeat(again, 200_000/len(again)) + strings.TrimSuffix(after, ","))
}

// Every published event decodes to an event, or to an error.
func FuzzEvent(f *testing.F) {
	peer := newHost(f, "peer")
	subject := subjects.Space{}.Event(actor.KindProc, peer.Proc().Scope(), subjects.Anon())
	for _, data := range [][]byte{
		[]byte(`{"kind":"proc","status":"failed","mesh":"` + peer.Proc().Mesh.String() + `"}`),
		[]byte(`{"cause":{"cause":{"kind":"host"}},"count":9999999}`),
		[]byte(`[]`), {}, long(`{"stderr_tail":[`, `"",`, `""]}`), long(`{"stderr_tail":[`, `0,`, `0]}`),
		long(`{"cause":`, `{"cause":`, ``), long(`{`, `"cause":null,"cause":{},`, `"rank":1}`),
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.CheckAllocBound(t, data, func() { _, _ = actor.DecodeEvent(data) })
		e, err := actor.DecodeEventFrom(subjects.Space{}, bus.Msg{Subject: subject, Data: data})
		if err != nil {
			return
		}
		require.Equal(t, peer.Proc(), e.Proc())
		require.Nil(t, e.RootCause().Cause)
	})
}

func TestDecodeEventFrom_aHostsSubjectHasEventsOfProcsOnly(t *testing.T) {
	peer, other := newHost(t, "peer"), newHost(t, "other")
	var space subjects.Space
	from := subjects.NewSender(subjects.Host.Principal("other"), other.Proc().Process())
	event := func(kind string, about subjects.ProcID) []byte {
		return []byte(`{"kind":"` + kind + `","status":"failed","mesh":"` + about.Mesh.String() + `","host":"` +
			other.String() + `"}`)
	}
	decode := func(subject string, data []byte) error {
		_, err := actor.DecodeEventFrom(space, bus.Msg{Subject: subject, Data: data})
		return err
	}
	byHost := space.HostEvent(peer.Proc(), from)
	require.NoError(t, decode(byHost, event(actor.KindProc, peer.Proc())))
	require.Error(t, decode(byHost, event(actor.KindProc, other.Proc())))
	require.Error(t, decode(byHost, event(actor.KindActor, peer.Proc())))
	require.Error(t, decode(byHost, event(actor.KindMesh, peer.Proc())))
	require.Error(t, decode(space.Log(peer.Proc(), "stdout", from), event(actor.KindProc, peer.Proc())))

	procEvent := event(actor.KindProc, peer.Proc())
	owner := subjects.NewSender(subjects.UserPrincipal(subjects.Program, "alice"), other.Proc().Process())
	scope := peer.Proc().Scope()
	require.NoError(t, decode(space.Event(actor.KindProc, scope, owner), procEvent), "an owner, or the proc itself")
	require.Error(t, decode(space.HostEvent(peer.Proc(), owner), procEvent), "no host")
	require.Error(t, decode(space.Event(actor.KindProc, scope, from), procEvent), "a host has its own subject")
}

// Every error body of a peer decodes to an error.
func FuzzError(f *testing.F) {
	body, err := wire.Marshal(wire.Error{Code: uint16(actor.CodeFenced), Text: "no", Actor: "a", Endpoint: "b"})
	require.NoError(f, err)
	for _, data := range [][]byte{body, {0xa0}, {}, []byte("no error")} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.CheckAllocBound(t, data, func() { _ = actor.FromWire(data) })
		e := actor.FromWire(data)
		require.NotEmpty(t, e.Error())
		require.NotZero(t, e.Code)
	})
}
