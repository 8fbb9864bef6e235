package faults

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/subjects"
)

func TestF21_ringOfCallsCompletesWithFullWindows(t *testing.T) {
	const rounds = 300
	for _, members := range []int{2, 3, 8} {
		try(t, fault{fmt.Sprintf("F21 ring of %d", members), 1, often},
			func(t *testing.T, seed uint64, f *figures) {
				w := newWorld(t, seed, serverConfig{})
				var ring []subjects.ActorID
				var inbox [][]subjects.ActorID
				for i := range members {
					one := w.worker(fmt.Sprintf("member%d", i))
					ring = append(ring, one.do(t, order{Do: "ring"}).Actors...)
					inbox = append(inbox, one.spawn(t, recorders{N: 1, Mailbox: 16}))
				}
				for i, one := range w.workers { // as fast as they can, into small mailboxes
					w.begin(one, load{Mode: wait, Senders: 4, Messages: 2000 / members, Sizes: []int{32 << 10}},
						inbox[(i+1)%members])
				}
				r := w.workers[0].do(t, order{Do: "ring", Ring: ring, Rounds: rounds, Size: 8 << 10})
				f.count("calls", rounds)
				f.count("deadlocks", r.Ring.Failed)
				f.time("all rounds", r.Ring.Took)
				require.Zero(t, r.Ring.Failed, r.Ring.Examples)
				w.settle(2*patience, w.workers...).wait(t)
				_, v := w.finish()
				f.judge(t, v)
				require.Equal(t, v.Sent, v.Handled)
			})
	}
}
