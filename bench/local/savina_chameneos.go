package local

import "fmt"

// creatures is how many there are to meet.
const creatures = 100

// color is what a creature changes when it meets another.
type color uint8

const (
	blue color = iota
	red
	yellow
	colors
)

// complement is the color after a meeting: the same as the other's when they are alike, else the
// third.
func (c color) complement(other color) color {
	if c == other {
		return c
	}
	return colors - c - other // they add up to 3
}

// Messages between creatures and the mall.
type (
	meet struct { // a creature wants to meet; or, from the mall, has met
		color color
		from  Ref
	}
	change struct{ color color } // what the other one became
	leave  struct{}              // the mall has closed
	left   struct{ met int }     // how often a creature had met
)

// mall brings two at a time together, until there have been enough meetings.
type mall struct {
	unstarted
	meetings int
	waiting  Ref
	inside   int // creatures that have not left
	met      int
	done     chan struct{}
}

func (a *mall) Receive(c Context, m any) any {
	switch m := m.(type) {
	case *meet:
		switch {
		case a.meetings == 0:
			c.Tell(m.from, &leave{})
		case a.waiting == nil:
			a.waiting = m.from
		default:
			a.meetings--
			c.Tell(a.waiting, m)
			a.waiting = nil
		}
	case *left:
		a.met += m.met
		a.inside--
		if a.inside == 0 {
			close(a.done)
		}
	}
	return nil
}

// creature meets others in the mall until it closes.
type creature struct {
	unstarted
	self, mall Ref
	color      color
	met        int
}

func (cr *creature) Receive(c Context, m any) any {
	switch m := m.(type) {
	case *start:
		c.Tell(cr.mall, &meet{cr.color, cr.self})
	case *meet:
		cr.become(c, cr.color.complement(m.color))
		c.Tell(m.from, &change{cr.color})
	case *change:
		cr.become(c, m.color)
	case *leave:
		c.Tell(cr.mall, &left{cr.met})
	}
	return nil
}

// become is a meeting and the wish for another.
func (cr *creature) become(c Context, to color) {
	cr.color = to
	cr.met++
	c.Tell(cr.mall, &meet{cr.color, cr.self})
}

// chameneos is n meetings of two.
func chameneos(st *stage) (float64, error) {
	a := &mall{meetings: st.n, inside: creatures, done: make(chan struct{})}
	place := st.Spawn(a)
	var all [creatures]creature
	for i := range all {
		all[i] = creature{mall: place, color: color(i) % colors}
		all[i].self = st.Spawn(&all[i])
	}
	took, err := st.inMillis(a.done, func() {
		for i := range all {
			st.Tell(all[i].self, &start{})
		}
	})
	if err == nil && a.met != 2*st.n {
		err = fmt.Errorf("creatures met %d times, want %d", a.met, 2*st.n)
	}
	return took, err
}
