package host

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

// The counts of a share always agree with a count of its procs.
func TestProcIndex_countsMatchANaiveCount(t *testing.T) {
	id := testproc.MeshID(t, "mesh")
	rapid.Check(t, func(t *rapid.T) {
		all := procIndex{}
		newest := map[int]*child{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			rank := rapid.IntRange(0, 3).Draw(t, "rank")
			c := newest[rank]
			switch rapid.SampledFrom([]string{"put", "move", "ask"}).Draw(t, "step") {
			case "put":
				gen := uint32(0)
				if c != nil {
					gen = c.id.Gen + 1
				}
				c = &child{id: subjects.ProcID{Mesh: id, Rank: uint32(rank), Gen: gen},
					mesh: agent.Mesh{ID: id}, rank: rank}
				all.put(c)
				newest[rank] = c
			case "move":
				if c != nil {
					to := agent.ProcessState(rapid.IntRange(int(agent.ProcessStarted), int(agent.ProcessFailed)).
						Draw(t, "life"))
					c.update(func() {
						if next, ok := c.state.Advance(to); ok {
							c.state = next
						}
					})
				}
			case "ask":
				if c != nil {
					c.update(func() { c.stopRequested = true })
				}
			}
		}
		var alive, running, stopping int
		for rank, c := range newest {
			require.Same(t, c, all.find(c.id))
			require.Same(t, c, all.findState(agent.State{ID: id.String(), Rank: rank, Gen: int(c.id.Gen)}))
			require.Nil(t, all.findState(agent.State{ID: id.String(), Rank: rank, Gen: int(c.id.Gen) + 1}))
			if !c.state.Terminal() {
				alive++
				if c.stopRequested {
					stopping++
				} else if c.state == agent.ProcessReady {
					running++
				}
			}
		}
		n := 0
		for range all.alive() {
			n++
		}
		require.Equal(t, alive, n)
		if of := all[id.String()]; of != nil {
			require.Equal(t, []int{alive, running, stopping}, []int{of.alive, of.running, of.stopping})
		}
	})
	require.Nil(t, procIndex{}.find(subjects.ProcID{Mesh: id}))
	require.Nil(t, procIndex{}.findState(agent.State{ID: id.String()}))
}
