package micro_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/micro"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wires is a bus that records its messages.
type wires struct {
	handle map[string]func(bus.Msg)
	said   []bus.Msg
	limit  int // of a message; 0: none
}

func (w *wires) Subscribe(subject string, h func(bus.Msg)) error { w.handle[subject] = h; return nil }
func (w *wires) Answer(m bus.Msg) error {
	if w.limit > 0 && len(m.Data) > w.limit {
		return bus.ErrTooLarge
	}
	w.said = append(w.said, m)
	return nil
}

// ask returns the answer of a service.
func (w *wires) ask(t *testing.T, filter, subject string) map[string]any {
	t.Helper()
	w.said = nil
	w.handle[filter](bus.Msg{Subject: subject, Reply: "r"})
	require.Len(t, w.said, 1, "MIC-1")
	require.Equal(t, "r", w.said[0].Subject)
	var got map[string]any
	require.NoError(t, json.Unmarshal(w.said[0].Data, &got))
	return got
}

func TestService_answersPingInfoAndStats(t *testing.T) { // MIC-1
	w := &wires{handle: map[string]func(bus.Msg){}}
	n := 0
	require.NoError(t, micro.Serve(w, micro.Service{
		Name: "svc", ID: "one", Version: "v1.2.3", Description: "says so",
		Info:  func(answer func([]micro.Endpoint)) { answer([]micro.Endpoint{{Name: "e", Subject: "s"}}) },
		Stats: func() []micro.Stats { n++; return []micro.Stats{{Name: "e", Subject: "s", Requests: uint64(n)}} },
	}))
	require.Len(t, w.handle, 3, "MIC-1")
	identity := map[string]any{"name": "svc", "id": "one", "version": "1.2.3", "metadata": map[string]any{}}
	with := func(more map[string]any) map[string]any {
		for k, v := range identity {
			more[k] = v
		}
		return more
	}
	for filter, subject := range map[string]string{"$SRV.*": "$SRV.", "$SRV.*.svc": "$SRV.",
		"$SRV.*.svc.one": "$SRV."} {
		tail := filter[len("$SRV.*"):]
		require.Equal(t, with(map[string]any{"type": "io.nats.micro.v1.ping_response"}),
			w.ask(t, filter, subject+"PING"+tail))
		require.Equal(t, with(map[string]any{
			"type": "io.nats.micro.v1.info_response", "description": "says so",
			"endpoints": []any{map[string]any{"name": "e", "subject": "s", "queue_group": ""}},
		}), w.ask(t, filter, subject+"INFO"+tail))
		stats := w.ask(t, filter, subject+"STATS"+tail)
		require.Equal(t, "io.nats.micro.v1.stats_response", stats["type"])
		require.NotEmpty(t, stats["started"])
		require.EqualValues(t, n, stats["endpoints"].([]any)[0].(map[string]any)["num_requests"], "MIC-1")
	}
	w.said = nil
	w.handle["$SRV.*"](bus.Msg{Subject: "$SRV.PING"})
	w.handle["$SRV.*"](bus.Msg{Subject: "$SRV.SCHEMA", Reply: "r"})
	require.Empty(t, w.said)
}

func TestService_listsAsManyEndpointsAsFit_MIC4(t *testing.T) {
	all, did := make([]micro.Endpoint, 1000), make([]micro.Stats, 1000)
	for i := range all {
		all[i].Name, did[i].Name = fmt.Sprint("e", i), fmt.Sprint("e", i)
	}
	w := &wires{handle: map[string]func(bus.Msg){}, limit: 20_000}
	require.NoError(t, micro.Serve(w, micro.Service{
		Name: "svc", ID: "one", Info: func(answer func([]micro.Endpoint)) { answer(all) },
		Stats: func() []micro.Stats { return did },
	}))
	for _, verb := range []string{"INFO", "STATS"} {
		some := w.ask(t, "$SRV.*", "$SRV."+verb)["endpoints"].([]any)
		require.Greater(t, len(some), 50, verb)
		require.Less(t, len(some), 1000, verb)
		require.Equal(t, "e0", some[0].(map[string]any)["name"])
	}
	w.limit, w.said = 10, nil
	w.handle["$SRV.*"](bus.Msg{Subject: "$SRV.INFO", Reply: "r"})
	require.Empty(t, w.said, "too small a limit ends without an answer")
}

func TestService_normalizesVersions(t *testing.T) {
	for version, want := range map[string]string{
		"": "0.0.0", "v1.2.3": "1.2.3", "1.2.3-rc.1+x": "1.2.3-rc.1+x", "(devel)": "0.0.0+devel",
		"1.2": "0.0.0+1-2",
	} {
		w := &wires{handle: map[string]func(bus.Msg){}}
		require.NoError(t, micro.Serve(w, micro.Service{Name: "svc", ID: "one", Version: version}))
		require.Equal(t, want, w.ask(t, "$SRV.*", "$SRV.PING")["version"], version)
	}
}

func TestService_refusesInvalidNames(t *testing.T) {
	for _, s := range []micro.Service{{Name: "a.b", ID: "x"}, {Name: "a", ID: "x/y"}, {Name: "", ID: "x"}} {
		require.Error(t, micro.Serve(&wires{}, s))
	}
	require.Equal(t, "m-counter-1-add", micro.Name("m", "counter.1", "add"))
}
