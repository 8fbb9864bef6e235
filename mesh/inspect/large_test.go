package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// largeMesh is an Inventory of one mesh of 8 ranks on each host, as hosts report it. Of every
// deadEvery hosts one is dead, with its ranks.
func largeMesh(t testing.TB, hosts, deadEvery int) mesh.Inventory {
	t.Helper()
	const id = "large-0000000000000"
	var inv mesh.Inventory
	var names []string
	started := time.Now().Add(-time.Hour)
	m := mesh.MeshState{}
	for h := range hosts {
		host, err := subjects.ParseHostID(fmt.Sprintf("n%05d-%013d", h, h))
		require.NoError(t, err)
		names = append(names, host.String())
		s := mesh.HostState{HostInfo: agent.HostInfo{ID: host, Label: host.Label(), Procs: 8}, State: agent.HostAlive}
		status := agent.Status{Phase: agent.Running}
		if h%deadEvery == 0 {
			s.State = agent.HostDead
			s.Reason = "its connections have ended"
			s.Silence = time.Minute
			status = agent.Status{Phase: agent.Failed, Reason: "host " + host.Label() + " is dead"}
		}
		inv.Hosts = append(inv.Hosts, s)
		for gpu := range 8 {
			m.States = append(m.States, agent.State{ID: id, Rank: 8*h + gpu, Status: status,
				Proc: &agent.ProcInfo{PID: 100 + gpu, Host: host.String(), Started: started, Memory: 1 << 30}})
		}
	}
	region := shape.Of("host", hosts).With("gpu", 8).Region()
	text := fmt.Sprintf("%s:%s@%s@1@%s@%s", id, strings.Join(names, ","), "owner-0000000000000/0.0/agent", region, region)
	require.NoError(t, m.Procs.UnmarshalText([]byte(text)))
	inv.Meshes = []mesh.MeshState{m}
	return inv
}

// explainLarge explains a mesh with every tenth host lost.
func explainLarge(t testing.TB, hosts int) (again func() (lost []int, x Explanation)) {
	t.Helper()
	inv := largeMesh(t, hosts, 10)
	w := newInspection(nil, inv)
	w.desc = inv.Meshes[0].Procs.Describe()
	w.report = controller.Report{Procs: w.desc, Phase: agent.Running}
	w.states = newestStates(inv.Meshes[0].States)
	for _, h := range inv.Silent() {
		w.report.Hosts = append(w.report.Hosts, controller.HostHealth{
			Host: h.ID.String(), State: h.State, Reason: h.Reason,
		})
	}
	return func() ([]int, Explanation) {
		ranks, hosts := inv.MissingRanks(inv.Meshes[0].Procs)
		require.Len(t, hosts, len(inv.Silent()))
		return ranks, w.view().Explanation()
	}
}

func TestExplanation_namesEachLostHostOfALargeMesh(t *testing.T) {
	const hosts = 1_500
	lost, x := explainLarge(t, hosts)()
	require.Len(t, lost, 8*hosts/10)
	require.Len(t, x.Causes, hosts/10)
}

// The time for each rank is the same in all sizes.
func BenchmarkExplanation_rank(b *testing.B) {
	for _, hosts := range []int{100, 1_000, 10_000} {
		b.Run(strconv.Itoa(8*hosts), func(b *testing.B) {
			again := explainLarge(b, hosts)
			for b.Loop() {
				again()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*8*hosts), "ns/rank")
		})
	}
}
