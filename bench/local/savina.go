package local

import (
	"fmt"
	"math"
	"sync/atomic"
)

// Messages that say no more than what they are.
type (
	start     struct{}
	increment struct{}
	retrieve  struct{}
)

// pinger sends the ball back until there have been enough round trips.
type pinger struct {
	unstarted
	to   Ref
	left int
	done chan struct{}
}

func (p *pinger) Receive(c Context, m any) any {
	if p.left == 0 {
		close(p.done)
		return nil
	}
	p.left--
	c.Tell(p.to, m)
	return nil
}

// ponger sends everything on.
type ponger struct {
	unstarted
	to Ref
}

func (p *ponger) Receive(c Context, m any) any {
	c.Tell(p.to, m)
	return nil
}

// pingpong is n round trips of one message between two actors.
func pingpong(st *stage) (float64, error) {
	ping, pong := &pinger{left: st.n, done: make(chan struct{})}, &ponger{}
	from := st.Spawn(ping)
	ping.to, pong.to = st.Spawn(pong), from
	return st.inMillis(ping.done, func() { st.Tell(from, &empty{}) })
}

// tally counts increments and says how many there were.
type tally struct {
	unstarted
	n        int
	producer Ref
}

func (t *tally) Receive(c Context, m any) any {
	switch m.(type) {
	case *increment:
		t.n++
	case *retrieve:
		c.Tell(t.producer, &total{t.n})
	}
	return nil
}

// total is a requested sum.
type total struct{ n int }

// producer sends n increments and asks how many there were.
type producer struct {
	unstarted
	tally Ref
	n     int
	got   int
	done  chan struct{}
}

func (p *producer) Receive(c Context, m any) any {
	switch m := m.(type) {
	case *start:
		var one any = &increment{}
		for range p.n {
			c.Tell(p.tally, one)
		}
		c.Tell(p.tally, &retrieve{})
	case *total:
		p.got = m.n
		close(p.done)
	}
	return nil
}

// counting is n messages from one actor to another, and one back.
func counting(st *stage) (float64, error) {
	t, p := &tally{}, &producer{n: st.n, done: make(chan struct{})}
	p.tally = st.Spawn(t)
	from := st.Spawn(p)
	t.producer = from
	took, err := st.inMillis(p.done, func() { st.Tell(from, &start{}) })
	if err == nil && p.got != st.n {
		err = fmt.Errorf("counted %d increments, want %d", p.got, st.n)
	}
	return took, err
}

// forks is how many actors forkjoin-throughput keeps busy.
const forks = 60

// fork computes a little for each message, and is done after the last.
type fork struct {
	unstarted
	left int
	sum  float64
	all  *atomic.Int64 // actors that are not done
	done chan struct{}
	ends bool // stops after its last message
}

func (f *fork) Receive(c Context, _ any) any {
	f.sum += math.Sin(float64(f.left))
	f.left--
	if f.left > 0 {
		return nil
	}
	if f.ends {
		c.Stop()
	}
	if f.all.Add(-1) == 0 {
		close(f.done)
	}
	return nil
}

// forkjoinThroughput is n rounds of one message to each of the forks.
func forkjoinThroughput(st *stage) (float64, error) {
	var all atomic.Int64
	all.Store(forks)
	done := make(chan struct{})
	var to [forks]Ref
	for i := range to {
		to[i] = st.Spawn(&fork{left: st.n, all: &all, done: done})
	}
	var m any = &empty{}
	return st.inMillis(done, func() {
		for range st.n {
			for i := range to {
				st.Tell(to[i], m)
			}
		}
	})
}

// forkjoinCreate makes n actors, each of which gets one message and ends.
func forkjoinCreate(st *stage) (float64, error) {
	var all atomic.Int64
	all.Store(int64(st.n))
	done := make(chan struct{})
	var m any = &empty{}
	return st.inMillis(done, func() {
		for range st.n {
			st.Tell(st.Spawn(&fork{left: 1, all: &all, done: done, ends: true}), m)
		}
	})
}
