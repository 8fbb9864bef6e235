package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// markWithin is how long the server may take to say that it has sent what it had.
const markWithin = time.Second

// marks are places in an Inbox.
type marks struct {
	mu      sync.Mutex
	wanted  []func()
	placed  map[*nats.Msg][]func()
	running chan struct{} // closed when nobody places marks any more; nil: nobody does
	over    bool          // nobody begins to
}

// AfterReceived calls f on the lane's pump after everything that the server has sent to this lane when
// AfterReceived is called. It does not wait. A server that does not answer within 1 s has nothing more
// to say; f is not called when the Bus is over before.
func (c *Conn) AfterReceived(f func()) { c.inbox.afterReceived(f) }

func (i *Inbox) afterReceived(f func()) {
	m := &i.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	m.wanted = append(m.wanted, f)
	if m.running == nil {
		m.running = make(chan struct{})
		go i.placeMarks(m.running)
	}
}

// placeMarks puts a mark behind what the server has sent, for all who want one, until nobody does.
func (i *Inbox) placeMarks(done chan struct{}) {
	defer close(done)
	m := &i.marks
	for {
		m.mu.Lock()
		fs := m.wanted
		m.wanted = nil
		if len(fs) == 0 {
			m.running = nil
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), markWithin)
		if err := i.conn.Flush(ctx); err != nil {
			i.conn.log.Debug().Err(err).Msg("a mark is placed behind what came so far")
		}
		cancel()
		mark := &nats.Msg{}
		m.mu.Lock()
		if m.placed == nil {
			m.placed = map[*nats.Msg][]func(){}
		}
		m.placed[mark] = fs
		m.mu.Unlock()
		select {
		case i.queue <- mark:
		case <-i.conn.bus.done:
		}
	}
}

// reach runs what waited for a mark, on the pump.
func (m *marks) reach(mark *nats.Msg) {
	m.mu.Lock()
	fs := m.placed[mark]
	delete(m.placed, mark)
	m.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// ended is closed when no goroutine places marks; none begins to.
func (m *marks) ended() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.running != nil {
		return m.running
	}
	none := make(chan struct{})
	close(none)
	return none
}
