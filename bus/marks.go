package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// markTimeout is the server's time to send its pending messages.
const markTimeout = time.Second

// marks are places in an Inbox.
type marks struct {
	mu      sync.Mutex
	queued  []func()
	placed  map[*nats.Msg][]func()
	running chan struct{} // closed when no goroutine places marks any more; nil: none does
	stopped bool          // no new goroutine may start
}

// AfterReceived calls f on the connection's pump after all messages that the server has already
// sent to this connection. It does not wait. If the server does not answer within 1 s, f is called
// then. If the Bus ends before, f is not called.
func (c *Conn) AfterReceived(f func()) { c.inbox.afterReceived(f) }

func (i *Inbox) afterReceived(f func()) {
	m := &i.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return
	}
	m.queued = append(m.queued, f)
	if m.running == nil {
		m.running = make(chan struct{})
		go i.placeMarks(m.running)
	}
}

// placeMarks places marks behind the server's pending messages until all waiting functions are
// covered.
func (i *Inbox) placeMarks(done chan struct{}) {
	defer close(done)
	m := &i.marks
	for {
		m.mu.Lock()
		fs := m.queued
		m.queued = nil
		if len(fs) == 0 {
			m.running = nil
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
		if err := i.conn.Flush(ctx); err != nil {
			i.conn.log.Debug().Err(err).Msg("cannot flush before a mark")
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

// run runs the functions behind a mark, on the pump.
func (m *marks) run(mark *nats.Msg) {
	m.mu.Lock()
	fs := m.placed[mark]
	delete(m.placed, mark)
	m.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// stop is closed when no goroutine places marks; none begins to.
func (m *marks) stop() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	if m.running != nil {
		return m.running
	}
	none := make(chan struct{})
	close(none)
	return none
}
