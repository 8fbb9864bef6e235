package polyglot

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestAnyProgram_canBeARankOfACast(t *testing.T) {
	r := newRig(t)
	r.up(t, "works", "plain", "--params", `{"subject":"work.{rank}"}`)
	started(t, r.env, "Listening on", program(t, "nats"), "reply", "work.0", "10")
	started(t, r.env, "serving", node(t), "node/rank.mjs", "work.1")
	started(t, r.env, "serving", python(t), "-B", "python/rank.py", "work.2")
	ask := func(body string, flags ...string) testkit.NATSReply {
		got := r.request(t, gatewayOf+"works.plain.request.u-anon.x", body, flags...)
		require.Len(t, got, 1)
		return got[0]
	}

	hole := ask("5")
	require.JSONEq(t, "[10,10,10,null]", hole.Body)
	require.Contains(t, hole.Header["Castnet-Partial"], "no service listens on work.3")
	require.Equal(t, "host=1,gpu=1", hole.Header["Castnet-Failed-Region"])

	t.Run("folded", func(t *testing.T) {
		started(t, r.env, "Listening on", program(t, "nats"), "reply", "work.3", "--echo")
		sum := ask("5", "-H", "Castnet-Reduce:sum")
		require.Equal(t, "35", sum.Body, sum.Header)
		require.Subset(t, sum.Header, covered("4"))
		inCBOR := ask("\x05", "-H", "Castnet-Reduce:sum", "-H", "Content-Type:"+asCBOR)
		require.Equal(t, "\x18\x23", inCBOR.Body, inCBOR.Header)
	})

	for body, want := range map[string]string{
		`"fail"`:    "out of paper (code 507)",
		`"nothing"`: "it is empty: want JSON, null for no value",
		`"garbage"`: "want JSON: invalid character",
	} {
		bad := ask(body, "-H", "Castnet-Region:host=0:2")
		require.JSONEq(t, "[10,null,null,null]", bad.Body)
		require.Contains(t, bad.Header["Castnet-Partial"], "work.1: "+want, bad.Header)
		require.Contains(t, bad.Header["Castnet-Partial"], "work.2: "+want, bad.Header)
	}

	for body, want := range map[string]string{"\x43abc": "a byte string of 3 bytes",
		"\xf9\x7e\x00": "the number NaN"} {
		refused := ask(body, "-H", "Content-Type:"+asCBOR)
		require.Equal(t, "400", refused.Header["Nats-Service-Error-Code"], refused.Header)
		require.Contains(t, refused.Header["Nats-Service-Error"], want)
	}

	silent := r.request(t, gatewayOf+"works.plain.request.u-anon.x", `"silence"`, "-H", "Castnet-TTL:2s", "-H",
		"Castnet-Region:host=0",
		"-H", "Castnet-Collect:stream", "--wait-for-empty", "--reply-timeout="+testkit.Patience.String())
	require.Len(t, silent, 3)
	require.Equal(t, "10", silent[0].Body, silent[0].Header)
	require.Equal(t, "1", silent[1].Header["Castnet-Rank"], silent[1].Header)
	require.Contains(t, []string{"408", "504"}, silent[1].Header["Nats-Service-Error-Code"],
		"it fails, or is missing")
	require.Equal(t, "1", silent[2].Header["Castnet-Answered"])

	told := r.request(t, gatewayOf+"works.plain.publish.u-anon.x", "5")
	require.Subset(t, told[0].Header, covered("4"), "without a wait for programs")

	for region, rank := range map[string]string{"host=0,gpu=1": "1", "host=1,gpu=0": "2"} {
		var headers map[string]string
		seen := ask(`"headers"`, "-H", "Castnet-Collect:choose", "-H", "Castnet-Region:"+region,
			"-H", "traceparent:"+trace)
		require.Equal(t, trace, seen.Header["traceparent"])
		require.NoError(t, json.Unmarshal([]byte(seen.Body), &headers), seen.Body)
		require.Subset(t, headers, map[string]string{"Castnet-Rank": rank, "Castnet-Point": region,
			"Content-Type": asJSON, "traceparent": trace})
		require.Regexp(t, `^gateway-.*/client$`, headers["Castnet-From"])
		require.Regexp(t, `^\d+(\.\d+)?s$`, headers["Castnet-TTL"])
	}
}

func TestPlainRank_refusesAReservedSubject(t *testing.T) {
	r := newRig(t)
	out, err := outputOf(t, testkit.Patience, r.env, "", "", program(t, "castnet"), "up", "bad", "--actor",
		"plain", "--no-hostd",
		"--params", `{"subject":"castnet.{rank}"}`)
	require.Error(t, err)
	require.Contains(t, out, "castnet's own: want one outside of castnet.")
}
