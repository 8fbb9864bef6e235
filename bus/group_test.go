package bus_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestSubscribeGroup_eachMessageGoesToOneMember(t *testing.T) {
	const n = 1000
	srv := bustest.Server(t)
	type got struct{ member, i int }
	heard := make(chan got, 3*n)
	for member := range 3 {
		group := "workers"
		if member == 2 {
			group = "others" // which has one member, and gets all
		}
		_, err := bustest.Open(t, srv).Data().SubscribeGroup("jobs.*", group, func(m bus.Msg) {
			i, _ := strconv.Atoi(string(m.Data))
			heard <- got{member, i}
		})
		require.NoError(t, err)
	}
	from := bustest.Open(t, srv).Data()
	for i := range n {
		require.NoError(t, from.Publish("jobs.x", strconv.AppendInt(nil, int64(i), 10)))
	}
	seen, by := map[bool]map[int]int{false: {}, true: {}}, map[int]int{}
	for range 2 * n {
		g := testkit.Next(t, heard)
		seen[g.member == 2][g.i]++
		by[g.member]++
	}
	for _, in := range seen {
		require.Len(t, in, n, "each message once in each group")
	}
	require.Positive(t, by[0])
	require.Positive(t, by[1])
}

func TestSubscribeGroup_refusesAnInvalidName(t *testing.T) {
	c := bustest.Open(t, bustest.Server(t)).Data()
	for _, group := range []string{"", "a b", "a\r\nb"} {
		_, err := c.SubscribeGroup("x", group, func(bus.Msg) {})
		require.ErrorIs(t, err, bus.ErrBadSubject)
	}
}
