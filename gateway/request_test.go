package gateway

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

const (
	to      = "castnet.v1.default.cast.demo.counter.add.u-anon.x"
	longest = 10 * time.Minute
)

// asked parses a request with headers in pairs.
func asked(body string, headers ...string) (request, error) {
	h := bus.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return parse(subjects.Space{},
		bus.Msg{Subject: to, Reply: "_INBOX.x", Header: h, Data: []byte(body)}, longest)
}

func TestRequest_withoutHeadersGathersAllWithin30s(t *testing.T) {
	r, err := asked("5")
	require.NoError(t, err)
	require.Equal(t, request{
		mesh: "demo", actor: "counter", endpoint: "add", from: subjects.Anon(), reply: "_INBOX.x", format: wire.JSON,
		collect: modeGather, ttl: 30 * time.Second, body: value{[]byte{5}},
	}, r)
}

func TestRequest_headersSetTargetVerbAndDeadline(t *testing.T) {
	r, err := asked("", "Castnet-Region", "host=0:2,gpu=*", "Castnet-Reduce", "top(3)", "Castnet-TTL", "1m30s")
	require.NoError(t, err)
	require.Equal(t, []any{"host=0:2,gpu=*", modeReduce, "top(3)", 90 * time.Second, value{}},
		[]any{r.region, r.collect, r.reducer, r.ttl, r.body})
	for _, collect := range []string{modeGather, modeStream, modeSend, modeChoose} {
		r, err := asked("", "Castnet-Collect", collect)
		require.NoError(t, err)
		require.Equal(t, collect, r.collect)
	}
	for _, reducer := range []string{"sum", "count", "concat", "merge(sum)", "collect", "one-of-its-own"} {
		r, err := asked("", "Castnet-Reduce", reducer, "Castnet-Collect", "reduce")
		require.NoError(t, err, reducer)
		require.Equal(t, reducer, r.reducer)
	}
}

func TestRequest_reportsInvalidInput(t *testing.T) {
	for name, tc := range map[string]struct {
		body    string
		headers []string
		want    string
	}{
		"collect unknown": {"", []string{"Castnet-Collect", "all"},
			`Castnet-Collect "all": want one of gather, stream, reduce, send, choose`},
		"collect empty": {"", []string{"Castnet-Collect", ""}, `Castnet-Collect "": want one of`},
		"reduce and stream": {"", []string{"Castnet-Collect", "stream", "Castnet-Reduce", "sum"},
			"Castnet-Collect stream contradicts Castnet-Reduce"},
		"reduce and gather": {"", []string{"Castnet-Collect", "gather", "Castnet-Reduce", "sum"},
			"Castnet-Collect gather contradicts Castnet-Reduce"},
		"reduce and send": {"", []string{"Castnet-Collect", "send", "Castnet-Reduce", "sum"},
			"Castnet-Collect send contradicts Castnet-Reduce"},
		"reduce and choose": {"", []string{"Castnet-Collect", "choose", "Castnet-Reduce", "sum"},
			"Castnet-Collect choose contradicts Castnet-Reduce"},
		"reduce by nothing": {"", []string{"Castnet-Collect", "reduce"},
			"want the name of a reducer in Castnet-Reduce"},
		"reducer empty":     {"", []string{"Castnet-Reduce", ""}, "Castnet-Reduce"},
		"reducer cannot be": {"", []string{"Castnet-Reduce", "top(x)"}, "top(x)"},
		"TTL no duration":   {"", []string{"Castnet-TTL", "5"}, `Castnet-TTL "5": want a duration`},
		"TTL zero":          {"", []string{"Castnet-TTL", "0s"}, "more than 0"},
		"TTL negative":      {"", []string{"Castnet-TTL", "-1s"}, "more than 0"},
		"TTL too long":      {"", []string{"Castnet-TTL", "10m1s"}, "at most 10m0s"},
		"TTL empty":         {"", []string{"Castnet-TTL", ""}, `Castnet-TTL ""`},
		"a header of ours": {"", []string{"Castnet-Speed", "1"},
			`header "Castnet-Speed": want one of Castnet-Collect, Castnet-Reduce, Castnet-Region, Castnet-TTL`},
		"another spelling": {"", []string{"castnet-region", "host=0"}, `header "castnet-region": want`},
		"a header twice": {"", []string{"Castnet-Region", "host=0", "Castnet-Region", "host=1"},
			"header Castnet-Region appears 2 times"},
		"a content type twice": {"", []string{"Content-Type", "application/json", "Content-Type",
			"application/cbor"}, "Content-Type appears 2 times"},
		"another content type": {"5", []string{"Content-Type", "text/plain"},
			"want application/json or application/cbor"},
		"no JSON":            {`{"n"`, nil, "the body is not JSON"},
		"two values":         {"5 5", nil, "more data after the first value"},
		"a number too large": {"18446744073709551616", nil, "does not fit into 64 bits"},
		"a float too large":  {"1e999", nil, "does not fit into 64 bits"},
		"nested too deeply": {strings.Repeat("[", 100) + strings.Repeat("]", 100), nil,
			"cannot decode the body"},
		"no CBOR": {"\xff", nil, "cannot decode the body"},
		"CBOR with a rest": {"\x18\x2a\x00", []string{"Content-Type", "application/cbor"},
			"cannot decode the body"},
		"CBOR of endless length": {"\x9f\x01\xff", nil, "cannot decode the body"},
	} {
		r, err := asked(tc.body, tc.headers...)
		require.ErrorContains(t, err, tc.want, name)
		m := r.message(outcome{err: err})
		require.Equal(t, "400", m.Header.Get("Nats-Service-Error-Code"), name)
		require.Equal(t, "_INBOX.x", m.Subject, name)
		require.NotEmpty(t, m.Data, name)
		require.NotContains(t, m.Header.Get("Nats-Service-Error"), "\n", name)
	}
	_, err := parse(subjects.Space{},
		bus.Msg{Subject: "castnet.v1.default.cast.de*mo.counter.add.u-anon.x"}, longest)
	require.ErrorContains(t, err, "mesh name")
}

func TestRequest_bodiesKeepTheirMeaning(t *testing.T) { // GW-2
	for body, want := range map[string]any{
		"":                            nil,
		" \n":                         nil,
		"null":                        nil,
		"5":                           int64(5),
		"-9223372036854775808":        int64(math.MinInt64),
		"2.5":                         2.5,
		`"text"`:                      "text",
		`{"a":[1,2.5,"x",null,true]}`: map[string]any{"a": []any{int64(1), 2.5, "x", nil, true}},
		"\x82\x01\x02":                []any{int64(1), int64(2)},
	} {
		r, err := asked(body)
		require.NoError(t, err, "%q", body)
		raw, err := wire.Marshal(r.body)
		require.NoError(t, err)
		var got any
		require.NoError(t, wire.Unmarshal(raw, &got))
		require.Equal(t, want, got, "%q", body)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("Castnet-Region", "host=0:2", "Castnet-Collect", "stream", []byte("5"))
	f.Add("Castnet-Reduce", "top(3)", "Castnet-TTL", "1s", []byte("\x82\x01\x02"))
	f.Add("Content-Type", "application/cbor", "castnet-ttl", "x", []byte("{"))
	f.Add("traceparent", parent, "tracestate", "", []byte("1"))
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string, body []byte) {
		h := bus.Header{}
		h.Add(k1, v1)
		h.Add(k2, v2)
		asks := bus.Msg{Subject: to, Reply: "_INBOX.x", Header: h, Data: body}
		bustest.CheckAllocBound(t, body, func() { _, _ = parse(subjects.Space{}, asks, longest) })
		r, err := parse(subjects.Space{}, asks, longest)
		if err != nil {
			m := r.message(outcome{err: err})
			require.NotEmpty(t, m.Data, "an error has a body")
			require.NotEmpty(t, m.Header.Get("Nats-Service-Error-Code"))
			require.NotContains(t, m.Header.Get("Nats-Service-Error"), "\n")
			return
		}
		require.Contains(t, collectModes, r.collect)
		require.Equal(t, r.collect == modeReduce, r.reducer != "")
		require.True(t, r.ttl > 0 && r.ttl <= longest)
		raw, err := wire.Marshal(r.body)
		require.NoError(t, err, "an accepted request can be sent")
		require.NotEmpty(t, raw)
		m := r.message(outcome{body: r.body})
		require.NotEmpty(t, m.Data, "a value is never empty (GW-2)")
		if r.format == wire.JSON {
			require.True(t, json.Valid(m.Data))
		} else {
			require.True(t, bytes.Equal(raw, m.Data))
		}
	})
}
