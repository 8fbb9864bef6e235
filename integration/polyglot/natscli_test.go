package polyglot

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"

	"github.com/castnet-io/castnet/internal/testkit"
)

// value decodes the body of a reply.
func value(t *testing.T, a testkit.NATSReply) (v any) {
	t.Helper()
	format, err := wire.FormatOf(a.Header["Content-Type"], []byte(a.Body))
	require.NoError(t, err)
	require.NoError(t, format.Decode([]byte(a.Body), &v), "%q", a.Body)
	return v
}

// request runs `nats request` with a body on its stdin.
func (r *rig) request(t *testing.T, subject, body string, flags ...string) []testkit.NATSReply {
	t.Helper()
	args := append([]string{"request", "--timeout", testkit.Patience.String()}, flags...)
	if body == "" {
		args = append(args, subject, "")
	} else {
		args = append(args, subject, "--force-stdin")
	}
	out, err := outputOf(t, testkit.Patience, r.env, "", body, program(t, "nats"), args...)
	require.NoError(t, err, "%v: %s", args, out)
	return testkit.NATSReplies(out)
}

const gatewayOf = "castnet.v1.default.cast."

func natsCasts(t *testing.T, r *rig) {
	for _, format := range []wire.Format{wire.JSON, wire.CBOR} {
		typed := []string{"-H", "Content-Type:" + format.ContentType()}
		encode := func(v any) string { return string(must(format.Encode(v))) }
		all := covered("4")

		got := r.request(t, gatewayOf+"demo.counter.reset.u-anon.x", "", typed...)
		require.Len(t, got, 1)
		require.Equal(t, []any{0, 0, 0, 0}, numbers(value(t, got[0])))
		require.Subset(t, got[0].Header, all)

		got = r.request(t, gatewayOf+"demo.counter.add.u-anon.x", encode(5),
			append(typed, "-H", "Castnet-Reduce:sum")...)
		require.Len(t, got, 1)
		require.Equal(t, 20, numbers(value(t, got[0])))
		require.Subset(t, got[0].Header, all)

		got = r.request(t, gatewayOf+"demo.counter.add.u-anon.x", encode(1),
			append(typed, "-H", "Castnet-Collect:stream", "--wait-for-empty", "--reply-timeout=30s")...)
		require.Len(t, got, 5, "each rank, and the end")
		ranks := map[string]bool{}
		for _, a := range got[:4] {
			require.Equal(t, 6, numbers(value(t, a)), a.Header)
			ranks[a.Header["Castnet-Rank"]+" "+a.Header["Castnet-Point"]] = true
		}
		require.Equal(t, map[string]bool{"0 host=0,gpu=0": true, "1 host=0,gpu=1": true, "2 host=1,gpu=0": true,
			"3 host=1,gpu=1": true}, ranks)
		require.Equal(t, "nil body", got[4].Body, "as nats calls an empty one")
		require.Subset(t, got[4].Header, all)

		got = r.request(t, gatewayOf+"demo.counter.add.u-anon.x", encode(1),
			append(typed, "-H", "Castnet-Collect:stream",
				"-H", "Castnet-Region:host=9", "--wait-for-empty", "--reply-timeout="+(2*testkit.Patience).String())...)
		require.Len(t, got, 2, "why it is refused, and the end")
		require.Equal(t, "400", got[0].Header["Nats-Service-Error-Code"])
		require.Equal(t, "nil body", got[1].Body)
		require.Subset(t, got[1].Header, covered("0"))
	}
}

func natsIsAnsweredAsTheVectorsSay(t *testing.T, r *rig) {
	r.request(t, gatewayOf+"demo.counter.reset.u-anon.x", "")
	for _, v := range requestVectors() {
		var flags []string
		for _, h := range v.Headers {
			flags = append(flags, "-H", h[0]+":"+h[1])
		}
		got := r.request(t, gatewayOf+strings.Join([]string{v.Mesh, v.Actor, v.Endpoint, "u-anon.x"}, "."),
			string(must(hex.DecodeString(v.Body))), flags...)
		require.Len(t, got, 1, v.Name)
		require.Subset(t, got[0].Header, v.Want.Headers, v.Name)
		require.Equal(t, v.Want.Format, got[0].Header["Content-Type"], v.Name)
		if v.Want.Code == 0 {
			want := must(json.Marshal(v.Want.Value))
			require.JSONEq(t, string(want), string(must(json.Marshal(value(t, got[0])))), v.Name)
			continue
		}
		said := got[0].Header["Nats-Service-Error"]
		require.Equal(t, strconv.Itoa(v.Want.Code), got[0].Header["Nats-Service-Error-Code"],
			"%s: %s", v.Name, said)
		body, ok := value(t, got[0]).(map[string]any)
		require.True(t, ok, "%s: an error has a body: %q", v.Name, got[0].Body)
		require.NotEmpty(t, body["error"], v.Name)
		for _, text := range v.Want.Mentions {
			require.Contains(t, said, text, v.Name)
		}
	}
}

// numbers converts the numbers of JSON and CBOR to integers.
func numbers(v any) any {
	switch v := v.(type) {
	case float64:
		return int(v)
	case int64:
		return int(v)
	case uint64:
		return int(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = numbers(v[i])
		}
		return out
	}
	return v
}
