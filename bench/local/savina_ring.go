package local

// ringSize is how many actors pass the token round.
const ringSize = 100

// token is passed on until nothing is left of it.
type token struct{ left int }

// link passes a token to the next.
type link struct {
	unstarted
	next Ref
	done chan struct{}
}

func (l *link) Receive(c Context, m any) any {
	left := m.(*token).left
	if left == 0 {
		close(l.done)
		return nil
	}
	c.Tell(l.next, &token{left - 1})
	return nil
}

// threadring is n hops of one token.
func threadring(st *stage) (float64, error) {
	done := make(chan struct{})
	var links [ringSize]link
	var refs [ringSize]Ref
	for i := range links {
		links[i].done = done
		refs[i] = st.Spawn(&links[i])
	}
	for i := range links {
		links[i].next = refs[(i+1)%ringSize]
	}
	return st.inMillis(done, func() { st.Tell(refs[0], &token{st.n}) })
}
