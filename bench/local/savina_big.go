package local

import (
	"fmt"
	"math/rand/v2"
)

// bigSize is how many actors there are.
const bigSize = 120

// Messages of the actors, and to the sink.
type (
	ask      struct{ from int }
	answer   struct{}
	finished struct{}
)

// chatter asks another at random, and again when that has answered.
type chatter struct {
	unstarted
	id       int
	all      *[bigSize]Ref
	sink     Ref
	left     int // questions
	answered int // of others
	random   *rand.Rand
}

func (b *chatter) Receive(c Context, m any) any {
	switch m := m.(type) {
	case *ask:
		b.answered++
		c.Tell(b.all[m.from], &answer{})
	case *start, *answer:
		if b.left == 0 {
			c.Tell(b.sink, &finished{})
			break
		}
		b.left--
		c.Tell(b.all[b.random.IntN(bigSize)], &ask{b.id})
	}
	return nil
}

// big is n questions of each to others chosen at random.
func big(st *stage) (float64, error) {
	end := &counter{left: bigSize, done: make(chan struct{})}
	sink := st.Spawn(end)
	var all [bigSize]chatter
	var refs [bigSize]Ref
	for i := range all {
		all[i] = chatter{id: i, all: &refs, sink: sink, left: st.n, random: rand.New(rand.NewPCG(uint64(i), 0))}
		refs[i] = st.Spawn(&all[i])
	}
	took, err := st.inMillis(end.done, func() {
		for i := range refs {
			st.Tell(refs[i], &start{})
		}
	})
	if err != nil {
		return 0, err
	}
	answered := 0
	for i := range all {
		answered += all[i].answered
	}
	if answered != bigSize*st.n {
		return 0, fmt.Errorf("%d questions were answered, want %d", answered, bigSize*st.n)
	}
	return took, nil
}
