package page

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

// largeInventory has live meshes of some hosts with eight ranks each, by name.
func largeInventory(t *testing.T, hosts map[string]int) (inv mesh.Inventory) {
	t.Helper()
	for name, n := range hosts {
		var m mesh.MeshState
		names := make([]string, n)
		for h := range n {
			names[h] = fmt.Sprintf("n%05d-%013d", h, h)
			for gpu := range 8 {
				m.States = append(m.States, agent.State{
					ID: name, Rank: 8*h + gpu, Status: agent.Status{Phase: agent.Running}, Proc: &agent.ProcInfo{},
				})
			}
		}
		region := shape.Of("host", n).With("gpu", 8).Region()
		require.NoError(t, m.Procs.UnmarshalText(fmt.Appendf(nil, "%s:%s@%s@1@%s@%s",
			name, strings.Join(names, ","), "owner-0000000000000/0.0/agent", region, region)))
		inv.Meshes = append(inv.Meshes, m)
	}
	return inv
}

const large, other = "large-0000000000000", "other-0000000000000"

func TestChoose_asksRegionsFirstAndTheOthersInTurn_PAGE3(t *testing.T) {
	t.Parallel()
	inv := largeInventory(t, map[string]int{large: 12_500, other: 10})
	s := newSampling(nil, maxAsked)
	require.True(t, s.Partial(inv))
	watched := []interest{{}, {large, "host=7"}, {large, ""}}
	before, inARow := map[rankKey]bool{}, map[rankKey]bool{}
	samples := 0
	for ; len(inARow) < 100_000; samples++ {
		require.Less(t, samples, 100, "all ranks have a turn")
		c := s.choose(inv, watched)
		require.Len(t, c.ranks, maxAsked)
		for gpu := range 8 {
			require.True(t, c.ranks[rankKey{large, 8*7 + gpu}], "somebody watches it")
		}
		for rank := range c.ranks {
			require.Equal(t, large, rank.mesh, "nobody watches the other mesh")
			if before[rank] {
				inARow[rank] = true
			}
		}
		before = c.ranks
	}
	require.LessOrEqual(t, samples, 2*100_000/(maxAsked-8)+2, "each rank is asked in two samples in a row")

	c := s.choose(inv, []interest{{other, ""}})
	require.Len(t, c.ranks, 80, "all of a small mesh")
	c = s.choose(inv, []interest{{large, "host=*"}, {other, "rack=3"}})
	require.Len(t, c.ranks, maxAsked, "a region may be large, and a mesh may have changed")
}

func TestRecall_keepsAnswersUntilTheNext_PAGE3(t *testing.T) {
	t.Parallel()
	s := newSampling(nil, 1)
	at := time.Now()
	take := func(after time.Duration, procs ...inspect.ProcCounters) (inspect.Sample, part) {
		for i := range procs {
			procs[i].Mesh = large
			procs[i].Status = "running"
		}
		l := inspect.Sample{At: at.Add(after), Partial: true, Procs: procs}
		return l, s.recall(&l, []interest{{large, ""}})[large]
	}
	said := inspect.ProcCounters{Latency: 7, Counters: inspect.Counters{Queued: 3, Rate: 0}}
	l, of := take(0, said, inspect.ProcCounters{Rank: 1, Unasked: true})
	require.True(t, math.IsNaN(l.Procs[0].Rate), "a rate needs two samples")
	require.True(t, l.Procs[1].Unasked)
	require.Equal(t, part{Asked: 1, Live: 2}, of)

	said.Rate = 5
	l, of = take(time.Second, said, inspect.ProcCounters{Rank: 1, Unasked: true})
	require.Equal(t, 5.0, l.Procs[0].Rate)
	require.Equal(t, part{Asked: 1, Live: 2}, of)

	l, of = take(3*time.Second, inspect.ProcCounters{Unasked: true}, inspect.ProcCounters{Rank: 1, Silent: true})
	require.Equal(t, []any{false, 3, time.Duration(7), 5.0},
		[]any{l.Procs[0].Unasked, l.Procs[0].Queued, l.Procs[0].Latency, l.Procs[0].Rate})
	require.Equal(t, part{Asked: 1, Live: 2, Oldest: 2 * time.Second}, of)

	l, _ = take(4*time.Second, inspect.ProcCounters{Gen: 1, Unasked: true}, inspect.ProcCounters{Rank: 1, Unasked: true})
	require.True(t, l.Procs[0].Unasked, "its next generation")
	require.True(t, l.Procs[1].Unasked, "it did not answer")

	said.Rate = 0
	l, _ = take(5*time.Second, said)
	require.Equal(t, 5.0, l.Procs[0].Rate, "the rate before, as one sample has none")
	whole := inspect.Sample{}
	require.Nil(t, s.recall(&whole, nil), "few ranks are all asked")
}

func TestFirstRows_troubleIsFirstAndTheRestIsCounted_PAGE3(t *testing.T) {
	t.Parallel()
	var hosts []inspect.HostCounters
	for i := range 12_500 {
		h := inspect.HostCounters{Host: fmt.Sprintf("n%05d", i), ID: fmt.Sprintf("n%05d-%013d", i, i), State: agent.HostAlive}
		if i%1000 == 999 {
			h.State = agent.HostDead
		}
		hosts = append(hosts, h)
	}
	shown := firstRows(hosts, func(h inspect.HostCounters) bool { return h.State == agent.HostAlive })
	require.Equal(t, []int{maxRows, 12_500, 12}, []int{len(shown.Shown), shown.Count, shown.Trouble})
	require.Equal(t, "n00999", shown.Shown[0].Host)
	require.Equal(t, "n00000", shown.Shown[12].Host)
	m := inspect.MeshSummary{Mesh: large, Hosts: make([]string, 12_500)}
	for i, h := range hosts {
		m.Hosts[i] = h.ID
	}
	line, err := json.Marshal(overview{
		Hosts: shown, Meshes: withHostLabels(rows[inspect.MeshSummary]{Shown: []inspect.MeshSummary{m}, Count: 1}),
	})
	require.NoError(t, err)
	require.Less(t, len(line), 64<<10)
	require.Contains(t, string(line), `"hosts":["n00000","n00001","n00002"]`)
	require.Contains(t, string(line), `"host_count":12500`)
}

// known returns the ranks of a frame whose queue is known.
func known(t *testing.T, l frameLine) (ranks []int) {
	t.Helper()
	frame, err := base64.StdEncoding.DecodeString(l.Ranks)
	require.NoError(t, err)
	n := len(frame) / len(columns())
	for rank, queued := range frame[n : 2*n] {
		if queued != unknownByte {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// handled counts the messages of an endpoint of all agents of the procs.
func handled(t *testing.T, c *testmesh.Cluster, procs mesh.ProcMesh, endpoint string) (n uint64) {
	t.Helper()
	for _, h := range procs.Describe().Hosts {
		m, err := agent.GetMetrics.Call(t.Context(), agent.Of(h.Proc()).Via(c.Net.Proc()), actor.None{})
		require.NoError(t, err)
		for _, of := range m.Meshes {
			for _, a := range of.Types {
				if a.Type != "proc-agent" || of.Mesh == "" {
					continue
				}
				for _, e := range a.Endpoints {
					if e.Name == endpoint {
						n += e.Handled
					}
				}
			}
		}
	}
	return n
}

func TestPage_asksFewProcsInASample_PAGE3(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a", "b"))
	s := serve(t, c)
	s.page.maxAsked = 1
	procs := spawn(t, c)
	id := procs.ID().String()
	begin := map[string]uint64{}
	for _, endpoint := range []string{"get", "casts"} {
		begin[endpoint] = handled(t, c, procs, endpoint)
	}
	frames := uint64(0)
	var at time.Time
	defer lines(s, "/api/meshes/"+id, func(l frameLine) bool {
		if l.Part == nil || l.At.Equal(at) {
			return false
		}
		at = l.At
		frames++
		require.Equal(t, []int{1, 4}, []int{l.Part.Asked, l.Part.Live})
		return frames >= 6 && len(known(t, l)) == 4
	})()
	// A sample asks one proc for casts, and one for its actors. A busy reader may miss samples.
	require.LessOrEqual(t, handled(t, c, procs, "casts")-begin["casts"], 2*frames)
	require.LessOrEqual(t, handled(t, c, procs, "get")-begin["get"], 3*frames)
}

func TestReport_asksWantedRanksAlone_PAGE3(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a", "b"))
	procs := spawn(t, c)
	inv, err := c.Net.Inventory(t.Context())
	require.NoError(t, err)
	second := func(rank int) bool { return rank == 1 }
	for wanted, asked := range map[string]uint64{"none": 0, "the second": 1, "all": 4} {
		some := map[string]func(int) bool{"none": func(int) bool { return false }, "the second": second}[wanted]
		gets, casts := handled(t, c, procs, "get"), handled(t, c, procs, "casts")
		r := report(t.Context(), c.Net, inv, procs.ID().String(), meshReport{}, true, some)
		require.NoError(t, r.err)
		require.NoError(t, r.castErr)
		require.Equal(t, 2, r.header.Mesh.Hosts)
		require.Equal(t, asked, handled(t, c, procs, "get")-gets, wanted)
		require.Equal(t, asked, handled(t, c, procs, "casts")-casts, wanted)
	}
}

func TestPage_asksTheRegionOfAReaderFirst_PAGE3(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a", "b"))
	s := serve(t, c, func(o *Options) { o.Act = true })
	s.page.maxAsked = 1
	id := spawn(t, c).ID().String()
	frames := 0
	defer lines(s, "/api/meshes/"+id+"?region=host%3D1,gpu%3D1", func(l frameLine) bool {
		if l.Part == nil {
			return false
		}
		require.Equal(t, []int{3}, known(t, l), "no other one has a turn")
		frames++
		return frames == 3
	})()
	code, body := s.text(http.MethodGet, "/api/meshes/"+id+"?region=gpu%3D7", "")
	require.Equal(t, http.StatusBadRequest, code, body)

	const order = `{"verb":"cast","mesh":"demo","actor":"speakers","endpoint":"double","body":21}`
	code, body = s.text(http.MethodPost, "/api/act", order)
	require.Equal(t, http.StatusOK, code, body)
	lines(s, "/api/overview", func(o overview) bool {
		for _, h := range o.Hosts.Shown {
			if h.Handled > 0 { // of hosts, as few procs are asked
				return true
			}
		}
		return false
	})()
}
