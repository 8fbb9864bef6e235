package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// Direction is where bytes go.
type Direction int

const (
	Up   Direction = iota // from the client to the server
	Down                  // from the server to the client
	Both                  // for Slow only
)

// Weather is what bytes go through.
type Weather struct {
	Latency   time.Duration // one way, from when they were read
	Bandwidth int           // bytes a second on each connection; 0: as many as there are
}

// Cut says where to cut.
type Cut struct {
	Direction Direction // Up or Down
	After     int       // more bytes in this direction, on any pair; at least 1
	Reset     bool      // RST; else FIN, after what was read has been passed on
	All       bool      // all pairs; else the one that carried the last byte
}

// Stats counts what a proxy did.
type Stats struct {
	Accepted int // connections of the client that reached the server
	Open     int // pairs that are not over
	Cuts     int
	Up, Down int64 // bytes read
}

// Proxy carries the connections of one process to its server.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	gate     *gate // shut while it stalls

	mu       sync.Mutex // guards the fields below
	upstream string
	weather  [2]Weather
	pairs    map[*pair]struct{}
	cut      *armed // nil: none is to come
	stats    Stats
	closed   bool
	tape     *tape // nil: nothing is recorded
}

// armed is a cut to come.
type armed struct {
	Cut
	left int
	done chan time.Time // holds one
}

// Start listens on a free port of the loopback and passes everything on to upstream.
func Start(upstream string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{listener: l, ctx: ctx, cancel: cancel, gate: newGate(), upstream: upstream,
		pairs: map[*pair]struct{}{}}
	p.tasks.Go(p.accept)
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Redirect sends connections from now on to another server; those that are there stay.
func (p *Proxy) Redirect(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// Slow sets the weather of bytes that are read from now on.
func (p *Proxy) Slow(d Direction, w Weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range []Direction{Up, Down} {
		if d == one || d == Both {
			p.weather[one] = w
		}
	}
}

// Stall lets nothing through and keeps every socket open, until Resume.
func (p *Proxy) Stall() { p.gate.shut() }

// Resume ends a Stall.
func (p *Proxy) Resume() { p.gate.open() }

// Cut cuts after c.After bytes; the channel then yields the time. It replaces a cut that has not
// happened yet, whose channel yields nothing.
func (p *Proxy) Cut(c Cut) <-chan time.Time {
	a := &armed{Cut: c, left: max(1, c.After), done: make(chan time.Time, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = a
	return a.done
}

// Disarm takes back a cut that has not come.
func (p *Proxy) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = nil
}

// Reset cuts every pair now, with RST.
func (p *Proxy) Reset() {
	for _, q := range p.all() {
		q.end(true)
	}
}

// Stats is what the proxy has done so far.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open = len(p.pairs)
	return s
}

// Close ends the proxy and everything that goes through it. A second call does nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Reset()
	p.cancel()
	p.tasks.Wait()
}

func (p *Proxy) all() []*pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*pair, 0, len(p.pairs))
	for q := range p.pairs {
		all = append(all, q)
	}
	return all
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.tasks.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

// serve carries one connection until it ends.
func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	upstream := p.upstream
	p.mu.Unlock()
	// An abandoned dial closes, with RST, a connection that the server may have accepted by then.
	d := net.Dialer{Control: lingerNot}
	conn, err := d.DialContext(p.ctx, "tcp", upstream)
	if err != nil {
		reset(client)
		return
	}
	server := conn.(*net.TCPConn)
	_ = server.SetLinger(-1) // fails when it is gone
	q := &pair{proxy: p, client: client, server: server, over: make(chan struct{}), held: newGate()}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.pairs[q] = struct{}{}
		p.stats.Accepted++
	}
	p.mu.Unlock()
	if closed {
		q.end(true)
		return
	}
	q.run()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, q)
}

// lingerNot makes an RST of the end of a socket that is about to connect.
func lingerNot(_, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	})
	return errors.Join(cerr, err)
}

// meter counts n bytes that were read. When a cut falls among them, it returns it and how many of
// the bytes come before it.
func (p *Proxy) meter(d Direction, n int) (keep int, hit *armed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d == Up {
		p.stats.Up += int64(n)
	} else {
		p.stats.Down += int64(n)
	}
	if p.cut == nil || p.cut.Direction != d {
		return n, nil
	}
	if p.cut.left > n {
		p.cut.left -= n
		return n, nil
	}
	hit, p.cut = p.cut, nil
	p.stats.Cuts++
	return hit.left, hit
}

// now is the weather of a direction.
func (p *Proxy) now(d Direction) Weather {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather[d]
}
