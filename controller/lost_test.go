package controller

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/presence"
)

// modelHost is a host of the model. Its procs end with its hostd.
type modelHost struct {
	incarnation uint64
	procs       map[int]int          // the generations of live ranks
	ended       map[int]agent.Status // ranks that ended in this incarnation
	inbox       []modelRequest
}

// modelRequest is a request on its way to a host.
type modelRequest struct {
	handle func(*modelHost) (reply any)
	broken func() (reply any) // it was lost with the link
}

// lossModel is a state and the hosts of its mesh. Requests and events keep their order, replies do not.
type lossModel struct {
	*scenario
	r       *rapid.T
	hosts   []*modelHost
	replies []any
	events  []any
	wake    time.Time
}

func newLossModel(t *testing.T, r *rapid.T) *lossModel {
	m := &lossModel{scenario: &scenario{t: t}, r: r}
	m.applyLine("procs", []string{"2", "2", "transient"})
	for i := range 2 {
		m.hosts = append(m.hosts, &modelHost{
			incarnation: 1, procs: map[int]int{2 * i: 0, 2*i + 1: 0}, ended: map[int]agent.Status{},
		})
	}
	m.step(agent.Overlay{{First: 0, Count: 4, Status: agent.Status{Phase: agent.Running}}})
	return m
}

// step gives the state an event, and checks that each proc that it reports as ended has ended.
func (m *lossModel) step(what any) {
	x := m.st.step(what, m.now)
	for _, run := range x.procEnds {
		run.Each(func(e actor.Event) {
			gen, runs := m.hosts[e.Rank/2].procs[e.Rank]
			require.False(m.r, runs && gen == e.Gen, "CTL-8: %s, but it runs", e)
		})
	}
	for _, s := range x.starts {
		m.send(s.rank/2, m.start(s))
	}
	for _, h := range x.newHostds {
		m.ask(slices.Index(m.st.spec.Procs.Hosts, h))
	}
	if !x.wake.IsZero() && (m.wake.IsZero() || x.wake.Before(m.wake)) {
		m.wake = x.wake
	}
}

func (m *lossModel) send(host int, q modelRequest) {
	m.hosts[host].inbox = append(m.hosts[host].inbox, q)
}

// start is the order to start a rank.
func (m *lossModel) start(s rankStart) modelRequest {
	return modelRequest{
		handle: func(h *modelHost) any {
			h.procs[s.rank] = s.gen
			delete(h.ended, s.rank)
			m.tell(s.rank, s.gen, string(actor.Running), "")
			running := agent.Run{First: s.rank, Count: 1, Status: agent.Status{Phase: agent.Running}}
			return startResult{starts: []rankStart{s}, overlay: agent.Overlay{running}}
		},
		broken: func() any { return startResult{starts: []rankStart{s}, err: actor.ErrLinkBroken} },
	}
}

// ask renews the leases at a host.
func (m *lossModel) ask(host int) {
	q := m.st.newRequest(location{host: host})
	m.send(host, modelRequest{
		handle: func(h *modelHost) any {
			by := maps.Clone(h.ended)
			for rank := range h.procs {
				by[rank] = agent.Status{Phase: agent.Running}
			}
			return q.answered(agent.OverlayOf(by), nil)
		},
		broken: func() any { return q.answered(nil, actor.ErrLinkBroken) },
	})
}

// tell publishes an event of a proc.
func (m *lossModel) tell(rank, gen int, status, reason string) {
	m.events = append(m.events, actor.Event{Kind: actor.KindProc, Mesh: m.st.spec.Procs.ID.String(), Rank: rank,
		Gen: gen, Status: status, Reason: reason, At: m.now})
}

// deliver lets a host handle its next request.
func (m *lossModel) deliver(h *modelHost) {
	if len(h.inbox) > 0 {
		q := h.inbox[0]
		h.inbox = h.inbox[1:]
		m.replies = append(m.replies, q.handle(h))
	}
}

// lose breaks the link to a host during its next request.
func (m *lossModel) lose(h *modelHost) {
	if len(h.inbox) > 0 {
		q := h.inbox[0]
		h.inbox = h.inbox[1:]
		m.replies = append(m.replies, q.broken())
	}
}

// restart ends a hostd with its procs and its inbox, and starts the next one.
func (m *lossModel) restart(host int) {
	h := m.hosts[host]
	for len(h.inbox) > 0 {
		m.lose(h)
	}
	next := h.incarnation + 1
	*h = modelHost{incarnation: next, procs: map[int]int{}, ended: map[int]agent.Status{}}
	m.events = append(m.events, hostChange{Host: m.st.spec.Procs.Hosts[host], State: presence.Alive,
		Incarnation: next, At: m.now})
}

// crash ends a proc. Its event may be lost with a connection.
func (m *lossModel) crash(rank int, reported bool) {
	h := m.hosts[rank/2]
	gen, runs := h.procs[rank]
	if !runs {
		return
	}
	const reason = "killed by signal 9"
	delete(h.procs, rank)
	h.ended[rank] = agent.Status{Phase: agent.Failed, Reason: reason}
	if reported {
		m.tell(rank, gen, string(actor.Failed), reason)
	}
}

// pass lets time pass.
func (m *lossModel) pass(d time.Duration) {
	m.now = m.now.Add(d)
	if !m.wake.IsZero() && !m.now.Before(m.wake) {
		m.wake = time.Time{}
		m.step(timerFired{})
	}
}

// next removes an item, and hands it to the state.
func (m *lossModel) next(items *[]any, i int) {
	if i < len(*items) {
		what := (*items)[i]
		*items = slices.Delete(*items, i, i+1)
		m.step(what)
	}
}

// act does something at random.
func (m *lossModel) act() {
	host := rapid.IntRange(0, 1).Draw(m.r, "host")
	switch rapid.IntRange(0, 10).Draw(m.r, "act") {
	case 0:
		m.ask(host)
	case 1, 2:
		m.deliver(m.hosts[host])
	case 3:
		m.next(&m.replies, rapid.IntRange(0, max(0, len(m.replies)-1)).Draw(m.r, "reply"))
	case 4:
		m.next(&m.events, 0)
	case 5:
		m.pass(time.Duration(rapid.IntRange(10, 400).Draw(m.r, "ms")) * time.Millisecond)
	case 6:
		m.restart(host)
	case 7:
		m.crash(2*host+rapid.IntRange(0, 1).Draw(m.r, "rank"), rapid.Bool().Draw(m.r, "reported"))
	case 8:
		m.lose(m.hosts[host])
	case 9, 10: // all but one reply arrive in time
		for _, h := range m.hosts {
			for len(h.inbox) > 0 {
				m.deliver(h)
			}
		}
		for len(m.events) > 0 {
			m.next(&m.events, 0)
		}
		for len(m.replies) > 1 {
			m.next(&m.replies, rapid.IntRange(0, 1).Draw(m.r, "reply"))
		}
		m.pass(400 * time.Millisecond)
	}
}

// settle delivers everything, with a few rounds of renewals.
func (m *lossModel) settle() {
	for range 8 {
		for i, h := range m.hosts {
			m.ask(i)
			for len(h.inbox) > 0 {
				m.deliver(h)
			}
		}
		for len(m.events) > 0 {
			m.next(&m.events, 0)
		}
		for len(m.replies) > 0 {
			m.next(&m.replies, 0)
		}
		m.pass(time.Minute)
	}
}

// Hostds start again at any time. A rank that ran is never reported as lost while it runs, and no
// lost rank stays running.
func TestStep_lostRanksFailAndNoOthers_CTL8(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := newLossModel(t, r)
		for range rapid.IntRange(1, 60).Draw(r, "acts") {
			m.act()
		}
		m.settle()
		for rank := range 4 {
			gen, runs := m.hosts[rank/2].procs[rank]
			if phase := m.st.phaseOf(rank); runs {
				require.Equal(r, agent.Running, phase, "rank %d runs", rank)
				require.Equal(r, gen, m.st.table.Gen(m.st.spec.id(), rank), "rank %d", rank)
			} else {
				require.Equal(r, agent.Failed, phase, "rank %d is gone", rank)
			}
		}
	})
}

// Both links with a host break when its hostd starts again, one after the other.
func TestRepeated_orderOutlivesBothLinks_CTL8(t *testing.T) {
	for breaks, want := range map[int]error{0: nil, linkDirections: nil, linkDirections + 1: actor.ErrLinkBroken} {
		_, err := repeated(func() (agent.Overlay, error) {
			breaks--
			if breaks >= 0 {
				return nil, actor.ErrLinkBroken
			}
			return nil, nil
		})
		require.ErrorIs(t, err, want)
	}
}
