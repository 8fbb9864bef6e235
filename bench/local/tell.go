package local

import "sync"

// blob is the message of 64 bytes; empty is the one of none.
type (
	blob  [64]byte
	empty struct{}
)

// sendSame sends one message n times.
func sendSame(s System, to Ref, n int) {
	var m any = &empty{}
	for range n {
		s.Tell(to, m)
	}
}

// sendFresh allocates and copies a message for each send.
func sendFresh(s System, to Ref, n int) {
	var template blob
	for range n {
		m := new(blob)
		*m = template
		s.Tell(to, m)
	}
}

// tell has plain goroutines send to one actor as fast as they can. The result is nanoseconds per
// message.
func tell(senders int, send func(s System, to Ref, n int)) func(*stage) (float64, error) {
	return func(st *stage) (float64, error) {
		share := max(st.n/senders, 1)
		c := &counter{left: share * senders, done: make(chan struct{})}
		to := st.Spawn(c)
		var wg sync.WaitGroup
		took, err := st.timed(c.done, func() {
			for range senders {
				wg.Go(func() { send(st.System, to, share) })
			}
		})
		wg.Wait()
		return float64(took) / float64(share*senders), err
	}
}

// counter closes done at the last message.
type counter struct {
	unstarted
	left int
	done chan struct{}
}

func (c *counter) Receive(Context, any) any {
	c.left--
	if c.left == 0 {
		close(c.done)
	}
	return nil
}
