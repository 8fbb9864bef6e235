package actor

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// ports holds the open ports of a proc.
type ports struct {
	p    *Proc
	made atomic.Uint64 // how many fresh names

	mu     sync.Mutex // guards the fields below
	open   map[portKey]port
	closed bool // opens nothing more
}

// openAt opens a port; on a stopped proc it is closed at once.
func (ps *ports) openAt(actor, name string, pt port) RawPort {
	key := portKey{actor, name}
	if !ps.add(key, pt) {
		pt.closed(ps.p.stopped())
	} else if why := ps.p.checkSend(actor); why != nil {
		ps.remove(key, pt)
		pt.closed(why)
	}
	return RawPort{ps.p, key, pt}
}

// add is openAt without the close; false if the proc has stopped.
func (ps *ports) add(key portKey, pt port) bool {
	ps.mu.Lock()
	over := ps.closed
	if !over {
		ps.open[key] = pt
	}
	ps.mu.Unlock()
	if in := ps.p.find(key.actor); in != nil {
		in.mu.Lock()
		in.hasPorts = true // set before it ends, because its end closes its ports
		ended := in.state.terminal()
		var why error
		if ended {
			why = in.endError()
		}
		in.mu.Unlock()
		if ended {
			ps.closeOf(func(owner string) bool { return owner == key.actor }, why)
		}
	}
	return !over
}

// refuse opens nothing from now on.
func (ps *ports) refuse() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.closed = true
}

func (ps *ports) remove(key portKey, pt port) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.open[key] == pt {
		delete(ps.open, key)
	}
}

func (ps *ports) find(actor, name string) port {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.open[portKey{actor, name}]
}

// missingError is the error of a missing port (PORT-1): it is closed, or never existed.
func (ps *ports) missingError(actor, name string) *Error {
	target := ps.p.id.Actor(actor).String()
	digits, private := strings.CutPrefix(name, "_0") // as freshName writes it
	n, err := strconv.ParseUint(digits, 36, 64)
	if private && err == nil && 0 < n && n <= ps.made.Load() {
		return errorf(CodePortGone, target, name, "the port is closed")
	}
	return errorf(CodeNoEndpoint, target, name, "proc %s never had such a port", ps.p.id)
}

// closeOf closes the ports of ended actors.
func (ps *ports) closeOf(of func(owner string) bool, err error) {
	ps.mu.Lock()
	var gone []port
	for key, pt := range ps.open {
		if of(key.actor) {
			gone = append(gone, pt)
			delete(ps.open, key)
		}
	}
	ps.mu.Unlock()
	for _, pt := range gone {
		pt.closed(err)
	}
}

// freshName returns an unused port name. The runtime's own ports start with a letter.
func (ps *ports) freshName() string { return string(ps.appendFreshName(nil)) }

func (ps *ports) appendFreshName(b []byte) []byte {
	return strconv.AppendUint(append(b, "_0"...), ps.made.Add(1), 36)
}

// failCalls ends the matching calls, whose answers are known not to come.
func (ps *ports) failCalls(match func(*call) bool, why func(*call) error) {
	ps.mu.Lock()
	var failed []*call
	for _, pt := range ps.open {
		if c, is := pt.(*call); is && match(c) {
			failed = append(failed, c)
		}
	}
	ps.mu.Unlock()
	for _, c := range failed {
		c.setAnswer(Answer{Err: why(c)})
	}
}

// put puts a value into a port of the proc.
func (ps *ports) put(from string, to subjects.PortID, v any) error {
	pt := ps.find(to.Actor.Name, to.Port)
	if pt == nil {
		return ps.missingError(to.Actor.Name, to.Port)
	}
	return pt.recv(Incoming{From: ps.p.id.Actor(from), Envelope: wire.Envelope{Kind: wire.Message},
		Local: true, Value: v})
}
