package host

import (
	"iter"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// shares are the procs of a host by the IDs of their meshes, so that what becomes of one costs the same
// however many there are.
type shares map[string]*share

// share is a host's procs of one mesh, and how many of them are how.
type share struct {
	procs    map[int]*child // the newest of each rank
	keep     bool           // they outlive a host that dies
	alive    int            // have not ended
	running  int
	stopping int // were asked to, and have not ended
}

// put adds a proc, in the place of an earlier one of its rank: what that one said last was answered while
// it was the newest.
func (s shares) put(c *child) {
	id := c.mesh.ID.String()
	c.share = s[id]
	if c.share == nil {
		c.share = &share{procs: map[int]*child{}}
		s[id] = c.share
	}
	if old := c.share.procs[c.rank]; old != nil {
		c.share.count(old, -1)
	}
	c.share.procs[c.rank], c.share.keep = c, c.mesh.Keep
	c.share.count(c, 1)
}

// find is the proc with an address; nil when there is none.
func (s shares) find(id subjects.ProcID) *child {
	if of := s[id.Mesh.String()]; of != nil {
		if c := of.procs[int(id.Rank)]; c != nil && c.id == id {
			return c
		}
	}
	return nil
}

// of is the proc behind a state of the table; nil when there is none.
func (s shares) of(st agent.State) *child {
	if of := s[st.ID]; of != nil {
		if c := of.procs[st.Rank]; c != nil && int(c.id.Gen) == st.Gen {
			return c
		}
	}
	return nil
}

// alive yields every proc that has not ended.
func (s shares) alive() iter.Seq[*child] {
	return func(yield func(*child) bool) {
		for _, of := range s {
			for _, c := range of.procs {
				if !c.life.Over() && !yield(c) {
					return
				}
			}
		}
	}
}

// change lets f change a proc that was put, and counts it anew.
func (c *child) change(f func()) {
	c.share.count(c, -1)
	f()
	c.share.count(c, 1)
}

func (s *share) count(c *child, n int) {
	switch {
	case c.life.Over():
		return
	case c.asked:
		s.stopping += n
	case c.life == agent.Reached:
		s.running += n
	}
	s.alive += n
}
