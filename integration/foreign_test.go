package integration

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/internal/testkit"
)

// foreign is a plain NATS client.
func foreign(t *testing.T, c *cluster) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(c.server.URL(), nats.Token(token), nats.Timeout(testkit.Patience))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// ask publishes a request and returns a number of answers by rank, as `nats req --replies` does.
func ask(t *testing.T, nc *nats.Conn, subject, body string, replies int) map[string]*nats.Msg {
	t.Helper()
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	require.NoError(t, err)
	require.NoError(t, nc.PublishRequest(subject, inbox, []byte(body)))
	by := map[string]*nats.Msg{}
	for range replies {
		m, err := sub.NextMsg(testkit.Patience)
		require.NoError(t, err)
		by[m.Header.Get(actor.HeaderRank)] = m
	}
	require.NoError(t, sub.Unsubscribe())
	return by
}

func TestForeignCast_reachesEveryRankInJSON(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs := c.spawn(t, c.connect(t), 4)
	m := counters(t, procs)
	folder := corpus(t)
	subject := func(endpoint, where string) string {
		return fmt.Sprintf("castnet.v1.default.k.%s.%s.%s.%s.u-anon.x", procs.ID(), m.Name(), endpoint, where)
	}
	nc := foreign(t, c)
	body, err := json.Marshal(counting.Job{Folder: folder, Suffix: ".go"})
	require.NoError(t, err)
	_, files, words := oracle(t, folder, ".go")
	gotFiles, gotWords := 0, int64(0)
	answers := ask(t, nc, subject("count", "_-_"), string(body), 8)
	require.Len(t, answers, 8, "each rank once")
	for rank := range 8 {
		msg := answers[fmt.Sprint(rank)]
		require.NotNil(t, msg, "rank %d", rank)
		require.Equal(t, "application/json", msg.Header.Get(actor.HeaderContentType))
		var s counting.Share
		require.NoError(t, json.Unmarshal(msg.Data, &s), "%s", msg.Data)
		gotFiles, gotWords = gotFiles+s.Files, gotWords+s.Words
	}
	require.Equal(t, files, gotFiles)
	require.Equal(t, words, gotWords)

	slice := ask(t, nc, subject("progress", "1-_"), "", 4)
	require.Len(t, slice, 4, "a slice is a subject of its own")
	for rank := 4; rank < 8; rank++ {
		require.Contains(t, slice, fmt.Sprint(rank))
	}
}

func TestForeignCast_badRequestGetsAnError(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	c := newCluster(t, "a")
	procs := c.spawn(t, c.connect(t), 2)
	m := counters(t, procs)
	nc := foreign(t, c)
	for _, bad := range []struct{ actor, endpoint, body, want string }{
		{m.Name(), "count", `{"folder":`, "unexpected end of JSON input"},
		{m.Name(), "count", `{"folder":7}`, "cannot unmarshal number"},
		{m.Name(), "counts", `{}`, "no such endpoint; it has count, crash, progress, shard"},
		{"nobody", "count", `{}`, "nobody"},
	} {
		subject := fmt.Sprintf("castnet.v1.default.k.%s.%s.%s._-_.u-anon.x", procs.ID(), bad.actor, bad.endpoint)
		answers := ask(t, nc, subject, bad.body, 2)
		require.Len(t, answers, 2)
		for rank, msg := range answers {
			require.Contains(t, msg.Header.Get(actor.HeaderError), bad.want, "rank %s: %s", rank, msg.Data)
			require.NotEmpty(t, msg.Data, "an error has a body")
		}
	}
	done, err := counting.Look(t.Context(), m)
	require.NoError(t, err, "no proc died")
	require.Zero(t, done)
}
