package polyglot

import (
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"

	"github.com/castnet-io/castnet/internal/testkit"
)

// answer is one message in the output of the nats command.
type answer struct {
	header map[string]string
	body   string
}

// value decodes the body.
func (a answer) value(t *testing.T) (v any) {
	t.Helper()
	format, err := wire.FormatOf(a.header["Content-Type"], []byte(a.body))
	require.NoError(t, err)
	require.NoError(t, format.Decode([]byte(a.body), &v), "%q", a.body)
	return v
}

// request runs `nats request` with a body on its stdin.
func (r *rig) request(t *testing.T, subject, body string, flags ...string) []answer {
	t.Helper()
	args := append([]string{"request", "--timeout", testkit.Patience.String()}, flags...)
	if body == "" {
		args = append(args, subject, "")
	} else {
		args = append(args, subject, "--force-stdin")
	}
	out, err := outputOf(t, testkit.Patience, r.env, "", body, program(t, "nats"), args...)
	require.NoError(t, err, "%v: %s", args, out)
	return answers(out)
}

var headerLine = regexp.MustCompile(`^\d\d:\d\d:\d\d (?:([A-Za-z-]+): (.*))?$`)

// answers parses the command's output: lines with a time stamp, one of them otherwise empty, and
// the body.
func answers(out string) (all []answer) {
	for i, text := range strings.Split(out, "Received with rtt ") {
		if i == 0 {
			continue
		}
		_, text, _ = strings.Cut(text, "\n")
		a := answer{header: map[string]string{}}
		for {
			line, rest, _ := strings.Cut(text, "\n")
			m := headerLine.FindStringSubmatch(line)
			if m == nil {
				break
			}
			if text = rest; m[1] == "" {
				break
			}
			a.header[m[1]] = m[2]
		}
		a.body, _, _ = strings.Cut(text, "\n")
		all = append(all, a)
	}
	return all
}

const gatewayOf = "castnet.v1.default.cast."

func natsCasts(t *testing.T, r *rig) {
	for _, format := range []wire.Format{wire.JSON, wire.CBOR} {
		typed := []string{"-H", "Content-Type:" + format.ContentType()}
		encode := func(v any) string { return string(must(format.Encode(v))) }
		all := covered("4")

		got := r.request(t, gatewayOf+"demo.counter.reset.u-anon.x", "", typed...)
		require.Len(t, got, 1)
		require.Equal(t, []any{0, 0, 0, 0}, numbers(got[0].value(t)))
		require.Subset(t, got[0].header, all)

		got = r.request(t, gatewayOf+"demo.counter.add.u-anon.x", encode(5),
			append(typed, "-H", "Castnet-Reduce:sum")...)
		require.Len(t, got, 1)
		require.Equal(t, 20, numbers(got[0].value(t)))
		require.Subset(t, got[0].header, all)

		got = r.request(t, gatewayOf+"demo.counter.add.u-anon.x", encode(1),
			append(typed, "-H", "Castnet-Collect:stream", "--wait-for-empty", "--reply-timeout=30s")...)
		require.Len(t, got, 5, "each rank, and the end")
		ranks := map[string]bool{}
		for _, a := range got[:4] {
			require.Equal(t, 6, numbers(a.value(t)), a.header)
			ranks[a.header["Castnet-Rank"]+" "+a.header["Castnet-Point"]] = true
		}
		require.Equal(t, map[string]bool{"0 host=0,gpu=0": true, "1 host=0,gpu=1": true, "2 host=1,gpu=0": true,
			"3 host=1,gpu=1": true}, ranks)
		require.Equal(t, "nil body", got[4].body, "as nats calls an empty one")
		require.Subset(t, got[4].header, all)

		got = r.request(t, gatewayOf+"demo.counter.add.u-anon.x", encode(1),
			append(typed, "-H", "Castnet-Collect:stream",
				"-H", "Castnet-Region:host=9", "--wait-for-empty", "--reply-timeout="+(2*testkit.Patience).String())...)
		require.Len(t, got, 2, "why it is refused, and the end")
		require.Equal(t, "400", got[0].header["Nats-Service-Error-Code"])
		require.Equal(t, "nil body", got[1].body)
		require.Subset(t, got[1].header, covered("0"))
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
		require.Subset(t, got[0].header, v.Want.Headers, v.Name)
		require.Equal(t, v.Want.Format, got[0].header["Content-Type"], v.Name)
		if v.Want.Code == 0 {
			want := must(json.Marshal(v.Want.Value))
			require.JSONEq(t, string(want), string(must(json.Marshal(got[0].value(t)))), v.Name)
			continue
		}
		said := got[0].header["Nats-Service-Error"]
		require.Equal(t, strconv.Itoa(v.Want.Code), got[0].header["Nats-Service-Error-Code"],
			"%s: %s", v.Name, said)
		body, ok := got[0].value(t).(map[string]any)
		require.True(t, ok, "%s: an error has a body: %q", v.Name, got[0].body)
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
