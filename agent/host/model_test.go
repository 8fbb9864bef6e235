package host_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/internal/testkit"
)

// A host with real procs behaves as the model. Procs are created, stopped, killed or left alone in
// any order. After each step the states, processes and events of both agree.
func TestModel_historiesOfCreationsAndStops(t *testing.T) {
	most := 12 // histories: one of processes takes a fifth of a second
	if testkit.Long() {
		most = math.MaxInt
	}
	for name, mode := range modes(t) {
		t.Run(name, func(t *testing.T) {
			broken := false
			s := &subject{T: t, mode: mode, kills: name == "processes"}
			rapid.Check(t, func(t *rapid.T) {
				defer func() {
					if r := recover(); r != nil {
						broken = true // the history is made shorter, however long that takes, on fresh hosts
						s.rig.close()
						s.rig = nil
						panic(r)
					}
				}()
				if s.histories < most || broken {
					s.history(t)
				}
			})
			t.Logf("%d histories, %d steps", s.histories, s.steps)
			require.Positive(t, s.steps)
		})
	}
}

// modelRanks are the ranks of each mesh.
const modelRanks = 2

// modelRank is a rank of the model.
type modelRank struct {
	gen    int
	phase  agent.Phase
	reason string
}

// modelMesh is a mesh of the model.
type modelMesh struct {
	desc     agent.Mesh
	spec     int
	released bool
	ranks    map[int]modelRank
}

// create returns the started ranks of a creation, or the text of its error.
func (m *modelMesh) create(spec, gen int, only []int) (starts map[int]int, refused string) {
	if len(m.ranks) > 0 && spec != m.spec && (!m.released && gen == 0 || m.alive() > 0) {
		return nil, "exists already with another spec"
	}
	starts = map[int]int{}
	for _, rank := range only {
		r, had := m.ranks[rank]
		switch ended := r.phase.Terminal(); {
		case !had:
			starts[rank] = gen
		case gen == 0 && ended && m.released:
			starts[rank] = r.gen + 1
		case gen == 0 || gen == r.gen:
		case gen < r.gen:
			return nil, fmt.Sprintf("generation %d is over", gen)
		case !ended:
			return nil, fmt.Sprintf("cannot start generation %d", gen)
		default:
			starts[rank] = gen
		}
	}
	if len(starts) > 0 {
		m.spec, m.released = spec, false
	}
	for rank, gen := range starts {
		m.ranks[rank] = modelRank{gen: gen, phase: agent.Running}
	}
	return starts, ""
}

func (m *modelMesh) alive() (n int) {
	for _, r := range m.ranks {
		if !r.phase.Terminal() {
			n++
		}
	}
	return n
}

// end ends every live rank.
func (m *modelMesh) end(why string) {
	m.released = m.released || len(m.ranks) > 0
	for rank, r := range m.ranks {
		if !r.phase.Terminal() {
			m.ranks[rank] = modelRank{r.gen, agent.Stopped, why}
		}
	}
}

// subject is a host in comparison with the model.
type subject struct {
	*testing.T
	mode             func(*host.Options)
	kills            bool
	rig              *rig
	histories, steps int

	mu   sync.Mutex
	told map[string]int // ends, by address
}

// fresh is a host that takes procs.
func (s *subject) fresh() *rig {
	if s.rig == nil {
		s.rig, s.told = newRig(s.T, s.mode), map[string]int{}
		s.rig.host.Observe(func(e actor.Event) {
			e.Each(func(e actor.Event) {
				if e.Kind == actor.KindProc && e.Terminal() {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.told[fmt.Sprint(e.Mesh, " ", e.Rank, " ", e.Gen)]++
				}
			})
		})
		go func(events <-chan actor.Event, done <-chan struct{}) { // nobody else takes them
			for {
				select {
				case <-events:
				case <-done:
					return
				}
			}
		}(s.rig.events, s.Context().Done())
	}
	return s.rig
}

// history plays a random history with two meshes, on fresh IDs.
func (s *subject) history(t *rapid.T) {
	r := s.fresh()
	s.histories++
	h := &play{T: t, subject: s, rig: r, ended: map[string]bool{}}
	for range 2 {
		h.meshes = append(h.meshes, &modelMesh{desc: r.mesh(s.T, modelRanks), ranks: map[int]modelRank{}})
	}
	steps := map[string]func(){"create": h.create, "create again": h.create, "stop": h.stop, "lapse": h.lapse,
		"drain": h.drain}
	if s.kills {
		steps["kill"] = h.kill
	}
	names := slices.Sorted(maps.Keys(steps))
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		s.steps++
		steps[rapid.SampledFrom(names).Draw(t, "step")]()
		h.compare()
	}
	if rapid.Bool().Draw(t, "stop all") {
		h.stopAll()
		s.rig = nil
		r.close()
		h.noneLeft(0)
		return
	}
	h.drain()
	h.compare()
	h.noneLeft(0)
}

// play is one history.
type play struct {
	*rapid.T
	subject *subject
	rig     *rig
	meshes  []*modelMesh
	ended   map[string]bool
}

func (h *play) ctx() context.Context { return h.subject.Context() }

func (h *play) any() *modelMesh {
	return h.meshes[rapid.IntRange(0, len(h.meshes)-1).Draw(h.T, "mesh")]
}

func (h *play) create() {
	m := h.any()
	spec, gen := rapid.IntRange(0, 1).Draw(h.T, "spec"), max(0, rapid.IntRange(-3, 3).Draw(h.T, "gen"))
	only := rapid.SampledFrom([][]int{nil, {0}, {1}}).Draw(h.T, "ranks")
	if h.rig.perProcess > 1 {
		only = nil
	}
	d := m.desc
	d.Command.Args = []string{strconv.Itoa(spec)}
	_, err := agent.Create.Call(h.ctx(), h.rig.agent(),
		agent.CreateRequest{Procs: &d, Gen: gen, Ranks: only, Wait: true})
	if only == nil {
		only = []int{0, 1}
	}
	if _, refused := m.create(spec, gen, only); refused != "" {
		require.ErrorContains(h, err, refused)
		return
	}
	require.NoError(h, err)
}

func (h *play) stop() {
	m := h.any()
	o, err := agent.Stop.Call(h.ctx(), h.rig.agent(),
		agent.StopRequest{ID: m.desc.ID.String(), Reason: "enough"})
	require.NoError(h, err)
	m.end("enough")
	ranks := 0
	o.Each(1000, func(int, agent.Status) { ranks++ })
	require.Equal(h, len(m.ranks), ranks)
}

// lapse lets a lease run out without a renewal.
func (h *play) lapse() {
	m := h.any()
	if m.alive() == 0 {
		return
	}
	id := m.desc.ID.String()
	_, err := agent.Keepalive.Call(h.ctx(), h.rig.agent(), agent.Lease{ID: id, TTL: time.Millisecond})
	require.NoError(h, err)
	_, err = agent.Wait.Call(h.ctx(), h.rig.agent(), agent.UntilEnded(id))
	require.NoError(h, err)
	m.end(agent.OrphanedReason(time.Millisecond))
}

func (h *play) drain() {
	alive := h.endAll("drained")
	sum, err := agent.Drain.Call(h.ctx(), h.rig.agent(), agent.DrainRequest{Reason: "drained"})
	require.NoError(h, err)
	require.Equal(h, agent.StopSummary{Requested: alive, Ended: alive}, sum)
}

// endAll ends every mesh in the model, and returns the number of its live ranks.
func (h *play) endAll(why string) (alive int) {
	for _, m := range h.meshes {
		alive += m.alive()
		m.end(why)
	}
	return alive
}

func (h *play) stopAll() {
	alive := h.endAll("closing")
	sum, err := agent.StopAll.Call(h.ctx(), h.rig.agent(), agent.StopAllRequest{Reason: "closing"})
	require.NoError(h, err)
	require.Equal(h, agent.StopSummary{Requested: alive, Ended: alive}, sum)
	h.compare()
	d := h.rig.mesh(h.subject.T, 1)
	_, err = agent.Create.Call(h.ctx(), h.rig.agent(), agent.CreateRequest{Procs: &d})
	require.ErrorContains(h, err, "is leaving: it takes no new procs (closing)")
}

// kill ends the process of a rank by SIGKILL.
func (h *play) kill() {
	m := h.any()
	for _, s := range h.rig.states(h.subject.T, m.desc) {
		if m.ranks[s.Rank].phase.Terminal() {
			continue
		}
		require.NoError(h, syscall.Kill(s.Proc.PID, syscall.SIGKILL))
		require.Eventually(h, func() bool {
			return slices.ContainsFunc(h.rig.states(h.subject.T, m.desc), func(now agent.State) bool {
				return now.Rank == s.Rank && now.Status.Phase.Terminal()
			})
		}, 20*time.Second, 5*time.Millisecond)
		m.ranks[s.Rank] = modelRank{m.ranks[s.Rank].gen, agent.Failed, "killed by signal 9 (killed)"}
		return
	}
}

// compare requires that host and model agree on the states and on the number of live processes.
// Each end was reported once.
func (h *play) compare() {
	alive := 0
	for _, m := range h.meshes {
		got := map[int]modelRank{}
		for _, s := range h.rig.states(h.subject.T, m.desc) {
			got[s.Rank] = modelRank{s.Gen, s.Status.Phase, s.Status.Reason}
		}
		require.Equal(h, m.ranks, got)
		alive += m.alive()
		for rank, r := range m.ranks {
			if r.phase.Terminal() {
				h.ended[fmt.Sprint(m.desc.ID, " ", rank, " ", r.gen)] = true
			}
		}
	}
	h.noneLeft(alive)
	h.subject.mu.Lock()
	defer h.subject.mu.Unlock()
	for end := range h.ended {
		require.Equal(h, 1, h.subject.told[end], "ends of mesh, rank and generation %s", end)
	}
	for end, n := range h.subject.told {
		mine := slices.ContainsFunc(h.meshes,
			func(m *modelMesh) bool { return strings.HasPrefix(end, m.desc.ID.String()) })
		require.True(h, !mine || h.ended[end], "%d ends of %s, which has not ended", n, end)
	}
}

// noneLeft requires that number of processes, and no others.
func (h *play) noneLeft(alive int) {
	if h.subject.kills {
		require.Len(h, children(h), alive, "processes")
	}
}

// children are the live child processes of this one.
func children(t require.TestingT) (pids []string) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range files {
		data, _ := os.ReadFile(file) // it may be gone
		_, rest, _ := strings.Cut(string(data), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" &&
			fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
