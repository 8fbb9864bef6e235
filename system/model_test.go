package system

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestShare_matchesANaiveCount_WORLD1(t *testing.T) { // WORLD-1
	rapid.Check(t, func(t *rapid.T) {
		procs, perHost := rapid.IntRange(1, 200).Draw(t, "procs"), rapid.IntRange(1, 50).Draw(t, "per host")
		seen := map[int]bool{}
		for rank := range 210 {
			var want []int
			for p := range procs {
				if p/perHost == rank {
					want = append(want, p)
				}
			}
			first, count := share(procs, perHost, rank)
			require.Len(t, want, count)
			for k := range count {
				require.Equal(t, want[k], first+k)
				require.False(t, seen[first+k])
				seen[first+k] = true
			}
		}
		require.Len(t, seen, procs)
	})
	_, n := share(1, 1<<40, 1<<40)
	require.Zero(t, n)
}

// cluster is simple hosts, and a controller that may die between any two of its effects.
type cluster struct {
	t       *rapid.T
	dice    *rand.Rand // even: rapid's own numbers are small ones
	s       *scenario
	store   map[string]Record
	hosts   []*machine
	waiting []any // events that are on their way to the controller
	orders  map[string]string
	told    map[string]Status
	settled map[string]bool // meshes of worlds that were live or unhealthy
	meshes  int
}

// machine is a host. A disconnected one runs on.
type machine struct {
	id    subjects.HostID
	world string
	rank  int
	life  int
	cut   bool
	has   map[subjects.MeshID]*portion
}

type portion struct {
	gen, first, count int
	keep              bool
}

func newCluster(t *rapid.T) *cluster {
	c := &cluster{t: t, dice: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), s: newScenario(t),
		store:  map[string]Record{},
		orders: map[string]string{}, told: map[string]Status{}, settled: map[string]bool{}}
	for i := range 5 {
		label := string(rune('a' + i))
		c.hosts = append(c.hosts, &machine{
			id: c.s.host(label), world: []string{"red", "blue"}[i%2], rank: i / 2 % 2,
			has: map[subjects.MeshID]*portion{},
		})
	}
	return c
}

func (c *cluster) between(least, most int) int { return least + c.dice.IntN(most-least+1) }

func (c *cluster) host(id subjects.HostID) *machine {
	return c.hosts[slices.IndexFunc(c.hosts, func(m *machine) bool { return m.id == id })]
}

// applyEvent gives the controller an event, and carries out a number of its effects; less than 0:
// all.
func (c *cluster) applyEvent(event any, most int) {
	effects := c.s.st.step(event, c.s.now)
	for i, e := range effects {
		if i == most {
			return
		}
		c.do(e)
	}
	c.check(effects)
}

func (c *cluster) do(e any) {
	switch e := e.(type) {
	case saveRecord:
		c.store[e.record.Name] = e.record
	case deleteRecord:
		delete(c.store, e.world)
	case create:
		c.create(e)
	case stopShare:
		if m := c.host(e.who.host); !m.cut {
			delete(m.has, e.mesh)
			c.waiting = append(c.waiting, memberStopped{world: e.world, who: e.who, stopped: 1})
		}
	case fetchInventory:
		if m := c.host(e.host); !m.cut {
			inv := inventory{host: m.id, incarnation: fmt.Sprint(m.life)}
			for mesh, p := range m.has {
				inv.shares = append(inv.shares, heldShare{mesh, p.gen, runningOverlay(p), nil})
			}
			c.waiting = append(c.waiting, inv)
		}
	case queryName:
		check := nameCheck{}
		if c.between(0, 3) == 0 {
			check.holder = &NameTakenError{Name: e.name, Kind: kindMesh}
		}
		c.waiting = append(c.waiting, nameChecked{e.request, check})
	case worldEvent:
		if c.told[e.world] = e.now; e.step == "world.end" {
			delete(c.told, e.world)
		}
		c.settle(e.mesh.String(), e.now)
	}
}

// settle notes that a world was live or unhealthy.
func (c *cluster) settle(mesh string, now Status) {
	c.settled[mesh] = c.settled[mesh] || now == StatusLive || now == StatusUnhealthy
}

func runningOverlay(p *portion) agent.Overlay {
	return agent.Overlay{{First: p.first, Count: p.count, Status: agent.Status{Phase: agent.Running}}}
}

// create requires that no address is used twice (WORLD-2), and that the addresses are those of a
// plain count.
func (c *cluster) create(e create) {
	m := c.host(e.host)
	require.NotZero(c.t, e.count, "an empty share is ordered")
	for rank := e.first; rank < e.first+e.count; rank++ {
		require.Equal(c.t, e.rank, rank/e.spec.PerHost)
		require.Less(c.t, rank, e.spec.Shape.NumRanks())
	}
	if m.cut || e.incarnation != fmt.Sprint(m.life) {
		return
	}
	p := m.has[e.mesh]
	if p != nil && p.gen >= e.gen {
		return
	}
	key, where := fmt.Sprintf("%s/%d.%d", e.mesh, e.first, e.gen), fmt.Sprintf("%s %d", m.id, m.life)
	require.Equal(c.t, where, cmp.Or(c.orders[key], where), "spawned twice: %s", key)
	c.orders[key] = where
	p = &portion{e.gen, e.first, e.count, e.spec.Keep}
	m.has[e.mesh] = p
	c.waiting = append(c.waiting, shareReport{m.id, e.mesh, e.gen, runningOverlay(p)})
}

// check compares the controller's snapshot with the one computed from the model.
func (c *cluster) check(effects []any) {
	shown := c.s.st.snapshot(Filter{})
	for _, w := range shown {
		want := StatusAwaiting
		if w.Shape != nil {
			want = StatusLive
			if len(w.Procs) < w.Shape.NumRanks() {
				want = StatusStarting
				if c.settled[w.Mesh] {
					want = StatusUnhealthy
				}
			}
			for _, p := range w.Procs {
				if p.Health != HealthAlive || len(p.Failed) > 0 {
					want = StatusUnhealthy
				}
			}
		}
		c.settle(w.Mesh, want)
		if w.StoppingReason == "" {
			require.Equal(c.t, want, w.Status, w.Name)
			if now, ok := c.told[w.Name]; ok {
				require.Equal(c.t, now, w.Status, "the last reported status of %s", w.Name)
			}
		}
		ranks := map[int]bool{}
		for _, h := range w.Hosts {
			for k := range h.Count {
				require.False(c.t, ranks[h.First+k], "rank %d is on two hosts", h.First+k)
				ranks[h.First+k] = true
			}
		}
	}
	if at, ok := c.s.st.nextTick(); ok {
		require.True(c.t, at.After(c.s.st.now), "a tick is due at its own time: a hot loop")
	}
	answers := 0
	for _, e := range effects {
		if _, ok := e.(answer); ok {
			answers++
		}
	}
	require.LessOrEqual(c.t, answers, 1)
}

func (c *cluster) join(m *machine) {
	if !m.cut {
		c.applyEvent(join{from(1), JoinRequest{World: m.world,
			Host: &HostJoin{ID: m.id, Rank: m.rank, Incarnation: fmt.Sprint(m.life)}}}, -1)
	}
}

func (c *cluster) declare(name string, procs, perHost int, keep bool) any {
	c.meshes++
	mesh, err := subjects.ParseMeshID(fmt.Sprintf("%s-%013d", name, c.meshes))
	require.NoError(c.t, err)
	spec := Spec{Name: name, Shape: shape.Of("x", procs), PerHost: perHost, Keep: keep,
		Command: agent.Command{Path: agent.Builtin}}
	return upsert{from(1), UpsertRequest{Spec: spec}, mesh}
}

// crash ends the controller, and another one takes over.
func (c *cluster) crash() {
	c.s.st, c.waiting, c.told = newState(c.s.st.limits), nil, map[string]Status{}
	clear(c.settled)
	records := slices.Collect(maps.Values(c.store))
	c.applyEvent(restored{records: records, directSuccessor: c.between(0, 1) == 1}, -1)
}

// deliver delivers the waiting events to the controller.
func (c *cluster) deliver() {
	for len(c.waiting) > 0 {
		e := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.applyEvent(e, -1)
	}
}

// watch reports the hosts as package presence does: a disconnected one may be dead by now.
func (c *cluster) watch() {
	for _, m := range c.hosts {
		if !m.cut {
			c.waiting = append(c.waiting, hostSeen{m.id})
		} else if c.between(0, 1) == 0 {
			c.waiting = append(c.waiting, hostLost{m.id, "no heartbeat"})
		}
	}
}

// keep drops the events for the controller, except for some.
func (c *cluster) keep(kept func(any) bool) {
	c.waiting = slices.DeleteFunc(c.waiting, func(e any) bool { return !kept(e) })
}

// isLocal reports whether an event comes from the controller's own process, so it cannot be lost.
func isLocal(e any) bool {
	switch e.(type) {
	case nameChecked, hostSeen, hostLost:
		return true
	}
	return false
}

func (c *cluster) act() {
	m := c.hosts[c.between(0, len(c.hosts)-1)]
	name := []string{"red", "blue"}[c.between(0, 1)]
	switch c.between(0, 11) {
	case 0, 1, 2:
		c.join(m)
	case 3:
		c.applyEvent(c.declare(name, c.between(1, 5), 3, c.between(0, 1) == 1), -1)
	case 4: // another hostd on that machine
		m.life++
		maps.DeleteFunc(m.has, func(_ subjects.MeshID, p *portion) bool { return !p.keep })
	case 5:
		m.cut = !m.cut
	case 6:
		c.s.now = c.s.now.Add(time.Duration(c.between(1, 40)) * time.Second)
		c.applyEvent(tick{}, -1)
		c.watch()
	case 7:
		c.applyEvent(stop{from(1), StopRequest{Worlds: []string{name}}}, -1)
	case 8: // the controller dies in the middle of something
		e := c.declare(name, 4, 2, false)
		if c.between(0, 1) == 1 {
			e = join{from(1), JoinRequest{World: m.world,
				Host: &HostJoin{ID: m.id, Rank: m.rank, Incarnation: fmt.Sprint(m.life)}}}
		}
		if !m.cut {
			c.applyEvent(e, c.between(0, 4))
			c.crash()
		}
	case 9: // the hostd ends as it should, with its procs
		if !m.cut {
			m.life++
			clear(m.has)
			c.keep(func(e any) bool { // as nameQueue.dropJoins does
				q, _ := e.(nameChecked)
				j, isJoin := q.request.(join)
				return !isJoin || j.Host.ID != m.id
			})
			c.applyEvent(leave{from(1), LeaveRequest{Host: &m.id}}, -1)
		}
	case 10: // word is lost
		c.keep(func(e any) bool { return isLocal(e) || c.between(0, 1) == 1 })
	case 11:
		c.deliver()
	}
}

// Any sequence of faults ends with each host running exactly its shares, and no address started
// twice.
func TestModel_spawnsNothingTwiceAndForgetsNothing_WORLD2(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		for range c.between(1, 120) {
			c.act()
		}
		for _, m := range c.hosts {
			m.cut = false
		}
		c.watch()
		c.deliver()
		c.s.now = c.s.now.Add(time.Minute) // what was stopped is gone
		c.applyEvent(tick{}, -1)
		c.crash()
		for range 3 {
			for _, m := range c.hosts {
				c.join(m)
			}
			c.deliver()
		}
		wanted := map[subjects.HostID]map[string]int{}
		for _, w := range c.s.st.snapshot(Filter{}) {
			if w.StoppingReason != "" {
				continue
			}
			for _, h := range w.Hosts {
				if h.Count > 0 {
					if wanted[h.ID] == nil {
						wanted[h.ID] = map[string]int{}
					}
					wanted[h.ID][w.Mesh] = h.Count
				}
			}
		}
		for _, m := range c.hosts {
			has := map[string]int{}
			for mesh, p := range m.has {
				has[mesh.String()] = p.count
			}
			require.Equal(t, len(wanted[m.id]), len(has), "%s has %v, is to have %v", m.id, has, wanted[m.id])
			for mesh, n := range wanted[m.id] {
				require.Equal(t, n, has[mesh])
			}
		}
		c.empty()
	})
}

// empty stops everything, and requires that nothing is left (WORLD-8).
func (c *cluster) empty() {
	c.applyEvent(stop{from(1), StopRequest{All: true}}, -1)
	c.deliver()
	c.s.now = c.s.now.Add(time.Hour)
	c.applyEvent(tick{}, -1)
	st := c.s.st
	require.Empty(c.t, st.worlds)
	require.Empty(c.t, st.hosts)
	require.Empty(c.t, st.procs)
	require.Empty(c.t, st.stops)
	require.Zero(c.t, st.heartbeatTimers.list.Len()+st.unhealthyTimers.list.Len())
	require.Empty(c.t, c.store)
	_, ok := st.nextTick()
	require.False(c.t, ok)
}

// The time of an eviction agrees with a check of every proc after every step (WORLD-6).
func TestModel_evictionMatchesANaiveCheck_WORLD6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScenario(t)
		s.st.limits = limits{silence: 6 * time.Second, eviction: 7 * time.Second, stopWithin: time.Second}
		for _, line := range [][]string{{"w", "x=3", "1"}, {"v", "x=2", "2"}} {
			s.applyLine("declare", line)
			s.applyLine("named", line[:1])
		}
		since, heard, expired := map[string]time.Time{}, map[string]time.Time{}, map[string]bool{}
		listening := s.now
		for range 80 {
			world := rapid.SampledFrom([]string{"w", "v"}).Draw(t, "world")
			id := fmt.Sprintf("%s/%d.0", world, rapid.IntRange(0, 2).Draw(t, "rank"))
			verb := rapid.SampledFrom([]string{"proc", "beat", "beat", "beat", "fails", "leave-proc", "at"}).
				Draw(t, "verb")
			args := []string{id}
			switch verb {
			case "proc":
				args = append(args, world)
			case "fails":
				verb, args = "beat", append(args, "actor")
			case "at": // late; a pause if it is later than half a silence
				verb = "paused"
				late := time.Duration(rapid.SampledFrom([]int{0, 1, 2, 3, 3, 8}).Draw(t, "s")) * time.Second
				args = []string{(s.now.Sub(s.start) + late).String()}
				if late > 3*time.Second {
					listening = s.now.Add(late)
				}
			}
			evicted, refused := map[string]bool{}, false
			for _, e := range s.run(verb, args) {
				if x, ok := e.(answer); ok {
					refused = x.err != nil
				}
				if x, ok := e.(worldEvent); ok && x.step == "world.evict" {
					evicted[x.world] = true
				}
			}
			if (verb == "proc" || verb == "beat") && !refused {
				heard[id] = s.now
				expired[id] = false
			}
			counts := s.now.Sub(listening) >= 6*time.Second
			for _, w := range s.st.snapshot(Filter{}) {
				bad := false
				for _, p := range w.Procs {
					name := short(p.ID)
					expired[name] = expired[name] || counts && s.now.Sub(heard[name]) >= 6*time.Second
					silent := expired[name]
					require.Equal(t, silent, p.Health == HealthExpired, "%s at %s", name, s.now.Sub(s.start))
					bad = bad || silent || len(p.Failed) > 0
				}
				first, ok := since[w.Name]
				switch {
				case !bad, w.Shape == nil, w.StoppingReason != "" && !evicted[w.Name]:
					require.False(t, evicted[w.Name])
					delete(since, w.Name)
				case !ok:
					since[w.Name] = s.now
				default:
					require.Equal(t, counts && s.now.Sub(first) >= 7*time.Second, evicted[w.Name])
				}
			}
		}
	})
}
