package actor

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// process is the state shared by the procs of one OS process. The first proc (Lead) has the links,
// receives deaths and knows the others. A message between two colocated procs is encoded, as
// between processes, but goes straight into the mailbox.
type process struct {
	lead    *Proc
	members Members
	pending pendingRequests
	urgents urgentTable

	mu  sync.RWMutex // guards all
	all map[uint32]*Proc
}

// errColocated reports a bus operation on a proc of this process.
var errColocated = errors.New("the proc is in this process")

func (ps *process) join(p *Proc) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.all[p.id.Index] = p
}

func (ps *process) leave(p *Proc) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.all, p.id.Index)
}

// procs are those of the process.
func (ps *process) procs() []*Proc {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	all := make([]*Proc, 0, len(ps.all))
	for _, p := range ps.all {
		all = append(all, p)
	}
	return all
}

// procAt returns the proc at an index; nil if there is none.
func (ps *process) procAt(seat uint32) *Proc {
	if seat == 0 {
		return ps.lead
	}
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.all[seat]
}

// has reports whether a proc would be in this process.
func (ps *process) has(id subjects.ProcID) bool { return id.Lead() == ps.lead.id }

// find is the proc of an actor by its name within the process, and its name there.
func (ps *process) find(within string) (*Proc, string) {
	if strings.IndexByte(within, '!') < 0 { // most are the first one's
		return ps.lead, within
	}
	id := ps.lead.self.ActorByLocalName(within)
	return ps.procAt(id.Proc.Index), id.Name
}

// Lead is the first proc of this process: itself, when it is alone.
func (p *Proc) Lead() *Proc { return p.process.lead }

// sendColocated delivers a message to a proc of this process. An error is its fate.
func (ob *outbox) sendColocated(o *outbound) error {
	p := ob.p
	q := p.process.procAt(o.to.Proc.Index)
	if q == nil {
		return errorf(CodeNoProc, o.to.String(), o.port, "process %s has no proc %s", p.self, o.to.Proc)
	}
	from := p.id.Actor(o.envelope.Sender)
	err := q.inbox.receiveColocated(from, o)
	if o.wait == nil || !o.envelope.Wait {
		return err
	}
	again := func(context.Context) error { return q.inbox.receiveColocated(from, o) }
	return p.awaitRoom(o.wait, q, o.to.Port(o.port), err, again)
}

// receiveColocated takes a message from another proc of this process, as if it came by a link. It
// keeps nothing of the message.
func (b *inbox) receiveColocated(from subjects.ActorID, o *outbound) error {
	in := &struct {
		link.Inbound
		e    wire.Envelope
		body [1]link.BodyRef
	}{e: o.envelope}
	in.e.Actor = o.to.Name
	in.e.Port = o.port
	in.e.Bytes = false
	in.e.Body = o.envelope.CopyBody()
	in.body[0].Size = uint32(len(in.e.Body))
	in.Envelope = &in.e
	in.Data = in.e.Body
	in.Bodies = in.body[:]
	_, err := b.receive(from, &in.Inbound)
	return err
}
