package chaos

import (
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	maxRead   = 32 << 10
	maxQueued = 2048 // reads
)

// pair is a connection of the client and the one to the server that belongs to it.
type pair struct {
	proxy          *Proxy
	client, server *net.TCPConn
	held           *gate // shut while what the client sent is held back
	once           sync.Once
	over           chan struct{} // closed when both connections are about to be
}

// packet is what one read has brought.
type packet struct {
	data []byte
	due  time.Time
}

// run carries both directions until both have ended.
func (q *pair) run() {
	var flows sync.WaitGroup
	for _, f := range []*flow{
		{pair: q, direction: Up, from: q.client, to: q.server},
		{pair: q, direction: Down, from: q.server, to: q.client},
	} {
		f.queue = make(chan packet, maxQueued)
		flows.Go(f.read)
		flows.Go(f.write)
	}
	flows.Wait()
	q.end(false)
}

// end closes both connections: with RST, or with FIN.
func (q *pair) end(rst bool) {
	q.once.Do(func() {
		close(q.over) // first: no polite FIN any more
		for _, c := range []*net.TCPConn{q.client, q.server} {
			if rst {
				reset(c)
			} else {
				c.Close()
			}
		}
	})
}

// reset closes a connection so that the other end sees ECONNRESET.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails when it is closed already
	c.Close()
}

// flow is one direction of a pair.
type flow struct {
	pair      *pair
	direction Direction
	from, to  *net.TCPConn
	queue     chan packet // closed when nothing more is read
	cutOff    bool        // a cut ended it; set before queue is closed
}

func (f *flow) read() {
	defer close(f.queue)
	buf := make([]byte, maxRead)
	for {
		n, err := f.from.Read(buf)
		if n > 0 && !f.take(buf[:n]) {
			return
		}
		if err != nil {
			return
		}
	}
}

// take queues what was read; false: this is the end of the flow.
func (f *flow) take(data []byte) bool {
	proxy := f.pair.proxy
	proxy.record(f, data)
	keep, hit := proxy.meter(f.direction, len(data))
	if hit != nil {
		defer f.cut(hit)
		if hit.Reset {
			return false
		}
	}
	select {
	case f.queue <- packet{bytes.Clone(data[:keep]), time.Now().Add(proxy.now(f.direction).Latency)}:
		return hit == nil
	case <-f.pair.over:
		return false
	}
}

// cut ends the pairs that a cut concerns; with FIN, this one ends when its queue is empty.
func (f *flow) cut(hit *armed) {
	f.cutOff = true
	if hit.Reset {
		f.pair.end(true)
	}
	if hit.All {
		for _, q := range f.pair.proxy.all() {
			if q != f.pair {
				q.end(hit.Reset)
			}
		}
	}
	hit.done <- time.Now()
}

// write passes on what was read. A receiver that is gone is no reason to stop reading: unread bytes
// would turn the end of the connection they came on into an RST, which takes back what was sent.
func (f *flow) write() {
	gone := false
	for p := range f.queue {
		if !f.pass(p.due) {
			return
		}
		if gone {
			continue
		}
		_, err := f.to.Write(p.data)
		gone = err != nil
		if b := f.pair.proxy.now(f.direction).Bandwidth; b > 0 &&
			!f.until(time.Now().Add(time.Duration(len(p.data))*time.Second/time.Duration(b))) {
			return
		}
	}
	if !f.pass(time.Time{}) {
		return
	}
	_ = f.to.CloseWrite() // fails when it is gone
	if f.cutOff {
		f.from.Close()
	}
}

// pass waits until a packet may go on; false: the pair is over.
func (f *flow) pass(due time.Time) bool {
	select {
	case <-f.pair.over:
		return false
	default:
	}
	return f.until(due) && f.pair.proxy.gate.wait(f.pair.over) &&
		(f.direction == Down || f.pair.held.wait(f.pair.over))
}

// until waits for a moment; false: the pair is over.
func (f *flow) until(t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.pair.over:
		return false
	}
}
