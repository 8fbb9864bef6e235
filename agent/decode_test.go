package agent

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
	return []byte(before + strings.Repeat(again, 200_000/len(again)) + after)
}

// Each foreign answer to a host query is a host, a list of hosts or an error.
func FuzzIntroduction(f *testing.F) {
	for _, data := range [][]byte{
		[]byte(`{"id":"a-000000000000","label":"a","labels":{"gpu":"4"},"mode":"open"}`),
		[]byte(`["a-000000000000"]`), {}, []byte("null"),
		long(`{"labels":{`, `"":"",`, `"":""}}`), long(`[`, `null,`, `null]`), long(`[`, `0,`, `0]`),
		long(`{"labels":{`, `"":0,`, `"":0}}`), long(`{"labels":`, `{"":`, ``),
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.CheckAllocBound(t, data, func() { _, _ = parseHostInfo(bus.Msg{Data: data}) })
		if h, ok := parseHostInfo(bus.Msg{Data: data}); ok {
			require.True(t, h.ID.IsValid())
		}
	})
}

// Every heartbeat of a host, and every refusal, is checked.
func FuzzAgentMessages(f *testing.F) {
	id, err := subjects.NewHostID("a")
	require.NoError(f, err)
	beat, err := wire.Marshal(Heartbeat{Host: id, Incarnation: 1, Seq: 1,
		Conns: []Connection{{Server: "s", Client: 1}}})
	require.NoError(f, err)
	listing, err := wire.Marshal(HostList{Complete: true,
		Hosts: []KnownHost{{ID: id, State: HostDead, Reason: "why", Silence: 1}}})
	require.NoError(f, err)
	for _, data := range [][]byte{
		beat, listing, []byte(`{"id":"m","has":{"epoch":3},"asked":{"epoch":2}}`), {0xa0}, long("[", `"",`, `""]`),
		long("[", `0,`, `0]`), long("{", `"id":0,`, `"id":0}`),
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var b Heartbeat
		bustest.CheckAllocBound(t, data, func() { _ = wire.Unmarshal(data, &b) })
		_ = b.Check(subjects.Anon())
		var l HostList
		bustest.CheckAllocBound(t, data, func() { _ = wire.Unmarshal(data, &l) })
		_ = l.Check()
		bustest.CheckAllocBound(t, data, func() { _ = new(FencedError).FromDetail(actor.CodeFenced, data) })
		bustest.CheckAllocBound(t, data, func() { _ = new(ConflictError).FromDetail(actor.CodeConflict, data) })
	})
}
