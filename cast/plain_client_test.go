package cast_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/subjects"
)

func TestPlainClient_regionAloneIsAsked_CAST11(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	b := bustest.Open(t, c.server)
	said := make(chan bus.Msg, 1000)
	_, err := b.Data().Subscribe("answers", func(m bus.Msg) { said <- m })
	require.NoError(t, err)
	ask := func(where, name string, h bus.Header) {
		require.NoError(t, b.Data().PublishMsg(bus.Msg{
			Subject: c.client.Space().Cast(c.place.Mesh, "members", "name", where, subjects.Anon()), Reply: "answers",
			Data: fmt.Appendf(nil, "%q", name), Header: h,
		}))
	}
	region := func(text ...string) bus.Header {
		return bus.Header{"Castnet-Region": text,
			"Traceparent": {"00-1"}}
	}
	ask("_-_", "all ", region(""))
	ask("_-_", "some ", region(" gpu=1:3 "))
	ask("_-_", "steps ", region("gpu=::3,host=1"))
	ask("_-_", "one ", region("1,2"))
	ask("1-_", "both ", region("gpu=1:3"))
	ask("1-_", "none ", region("host=0"))
	ask("1-_", "", region("gpu=4"))
	ask("1-_", "", region("host=0|gpu=3"))
	ask("1-_", "", region("gpu=0:4:0"))
	ask("1-_", "", region("gpu=1", "gpu=2"))
	ask("1-_", "", bus.Header{"Castnet-Reduce": {"sum"}})
	ask("1-_", "", bus.Header{"castnet-region": {"gpu=1"}})
	ask("1-_", "", bus.Header{"Castnet-Ttl": {"5s"}})
	ask("1-_", "", bus.Header{"Castnet-TTL": {"5"}})
	ask("1-_", "in time ", bus.Header{"Castnet-TTL": {"1m"}})
	ask("_-_", "last ", nil) // each rank answers it behind all others

	answers := map[string]int{}
	for answers["last "] < 8 {
		select {
		case m := <-said:
			text := m.Header.Get(actor.HeaderError)
			if text == "" {
				rank := m.Header.Get(actor.HeaderRank)
				text = strings.TrimSuffix(strings.Trim(string(m.Data), `"`), rank)
				answers[text+rank]++
			} else {
				require.Equal(t, "400", m.Header.Get(actor.HeaderErrorCode))
				rank := m.Header.Get(actor.HeaderRank)
				require.Contains(t, "4567", rank)
				text = strings.TrimPrefix(text, c.place.Mesh.String()+"/"+rank+".0/members: name: ")
			}
			answers[text]++
		case <-time.After(30 * time.Second):
			t.Fatal("not all ranks answered: ", answers)
		}
	}
	const elsewhere = ": want only Castnet-Region and Castnet-TTL, or a cast through the gateway"
	want := map[string]int{
		`Castnet-Region "gpu=4": index of gpu "4": want 0 to 3`:                                4,
		`Castnet-Region "gpu=0:4:0": slice of gpu (size 4) "0:4:0": want a step of at least 1`: 4,
		`header Castnet-Region appears 2 times: want it once`:                                  4,
		`header "Castnet-Reduce"` + elsewhere:                                                  4,
		`header "castnet-region"` + elsewhere:                                                  4,
		`header "Castnet-Ttl"` + elsewhere:                                                     4,
		`Castnet-TTL "5": want a duration of more than 0 and at most 10m0s, such as 5s`:        4,
		`Castnet-Region "host=0|gpu=3": want one index, range or * for each dimension`:         4,
	}
	for name, ranks := range map[string][]int{
		"all ": {0, 1, 2, 3, 4, 5, 6, 7}, "some ": {1, 2, 5, 6}, "steps ": {4, 7}, "one ": {6}, "both ": {5, 6},
		"in time ": {4, 5, 6, 7}, "last ": {0, 1, 2, 3, 4, 5, 6, 7},
	} {
		want[name] = len(ranks)
		for _, rank := range ranks {
			want[fmt.Sprint(name, rank)] = 1
		}
	}
	require.Equal(t, want, answers)
}
