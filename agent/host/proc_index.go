package host

import (
	"iter"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// procIndex holds the procs of a host by mesh ID. The cost of a change does not grow with the
// number of procs.
type procIndex map[string]*meshProcs

// meshProcs are a host's procs of one mesh with their counts.
type meshProcs struct {
	procs    map[int]*child // the newest of each rank
	earlier  []*child       // before it, oldest first, for the readers of their output
	kept     bool           // outlive a crashed host
	alive    int            // have not ended
	running  int
	stopping int      // asked to stop, not ended
	types    []string // actor types in the latest ready report; none if ranks have programs of their own
}

// maxEarlier bounds the earlier procs of a mesh with an output, for each rank.
const maxEarlier = 3

// put adds a proc in place of its rank's earlier one. That one's last message was answered before.
func (s procIndex) put(c *child) {
	id := c.mesh.ID.String()
	c.meshProcs = s[id]
	if c.meshProcs == nil {
		c.meshProcs = &meshProcs{procs: map[int]*child{}}
		s[id] = c.meshProcs
	}
	if old := c.meshProcs.procs[c.rank]; old != nil {
		c.meshProcs.count(old, -1)
		c.meshProcs.keepOutput(old)
	}
	c.meshProcs.procs[c.rank], c.meshProcs.kept = c, c.mesh.Keep
	c.meshProcs.count(c, 1)
}

// keepOutput keeps the output of a proc that another one replaces, in place of the oldest.
func (s *meshProcs) keepOutput(c *child) {
	if c.process == nil {
		return
	}
	s.earlier = append(s.earlier, c)
	if len(s.earlier) > maxEarlier*len(s.procs) {
		s.earlier[0].process.Output().Remove()
		s.earlier = slices.Delete(s.earlier, 0, 1)
	}
}

// withOutput yields the procs that have an output, and whether they are the newest of their ranks.
func (s *meshProcs) withOutput() iter.Seq2[*child, bool] {
	return func(yield func(*child, bool) bool) {
		for _, c := range s.earlier {
			if !yield(c, false) {
				return
			}
		}
		for _, c := range s.procs {
			if c.process != nil && !yield(c, true) {
				return
			}
		}
	}
}

// find returns the proc with an address, or nil.
func (s procIndex) find(id subjects.ProcID) *child {
	if of := s[id.Mesh.String()]; of != nil {
		if c := of.procs[int(id.Rank)]; c != nil && c.id == id {
			return c
		}
	}
	return nil
}

// findState returns the proc of a table state, or nil.
func (s procIndex) findState(st agent.State) *child {
	if of := s[st.ID]; of != nil {
		if c := of.procs[st.Rank]; c != nil && int(c.id.Gen) == st.Gen {
			return c
		}
	}
	return nil
}

// alive yields every live proc.
func (s procIndex) alive() iter.Seq[*child] {
	return func(yield func(*child) bool) {
		for _, of := range s {
			for _, c := range of.procs {
				if !c.state.Terminal() && !yield(c) {
					return
				}
			}
		}
	}
}

// update changes a proc through f and updates the counts.
func (c *child) update(f func()) {
	c.meshProcs.count(c, -1)
	f()
	c.meshProcs.count(c, 1)
}

func (s *meshProcs) count(c *child, n int) {
	switch {
	case c.state.Terminal():
		return
	case c.stopRequested:
		s.stopping += n
	case c.state == agent.ProcessReady:
		s.running += n
	}
	s.alive += n
}

// procRecords are the procs of a host and the records of them that the agent serves.
type procRecords struct {
	host  subjects.HostID
	table *agent.Table
	procs procIndex
}

func (r *procRecords) status(c *child) agent.Status {
	return r.table.Status(c.mesh.ID.String(), c.rank)
}

// event returns the event of a proc's present state.
func (r *procRecords) event(c *child) actor.Event {
	s := r.status(c)
	return actor.Event{
		Kind: actor.KindProc, Status: s.Phase.String(), Reason: s.Reason, Mesh: c.mesh.ID.String(), Rank: c.rank,
		Gen: int(c.id.Gen), ProcIndex: int(c.id.Index), PerProcess: c.mesh.PerProcess, Host: r.host.String(),
		At: time.Now(),
	}
}

// setProcessState advances the state of a proc's process.
func (r *procRecords) setProcessState(c *child, to agent.ProcessState) {
	if next, ok := c.state.Advance(to); ok {
		c.update(func() { c.state = next })
		r.updateTable(c)
	}
}

// updateTable copies the process details of a proc into the table.
func (r *procRecords) updateTable(c *child) {
	r.table.UpdateState(c.mesh.ID.String(), c.rank, func(s *agent.State) {
		if s.Gen != int(c.id.Gen) {
			return
		}
		p := agent.ProcInfo{Host: r.host.String(), Program: c.program}
		if s.Proc != nil {
			p = *s.Proc
		}
		p.State = c.state
		p.Adopted = c.adopted
		p.GraceExpired = c.graceExpired
		if c.process != nil {
			p.PID = c.process.PID()
			p.Started = c.process.Started()
			p.Unenforced = c.process.Unenforced()
		}
		s.Proc = &p
	})
}
