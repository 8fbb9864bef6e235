package actor

import (
	"errors"
	"strings"
	"sync"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// process is what the procs of one OS process share: the first of them has the links, hears of deaths, and
// knows the others. A message between two of them is encoded, as between processes, but goes straight into
// the mailbox.
type process struct {
	first *Proc
	asked asked
	urged urgents

	mu  sync.RWMutex // guards all
	all map[uint32]*Proc
}

// errNeighbour says that there is no way over the bus to a proc of this process.
var errNeighbour = errors.New("the proc is in this process")

func (ps *process) join(p *Proc) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.all[p.id.Seat] = p
}

func (ps *process) leave(p *Proc) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.all, p.id.Seat)
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

// at is the proc at a seat; nil when there is none.
func (ps *process) at(seat uint32) *Proc {
	if seat == 0 {
		return ps.first
	}
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.all[seat]
}

// has reports whether a proc would be in this process.
func (ps *process) has(id subjects.ProcID) bool { return id.Lead() == ps.first.id }

// find is the proc of an actor by its name within the process, and its name there.
func (ps *process) find(within string) (*Proc, string) {
	if strings.IndexByte(within, '!') < 0 { // most are the first one's
		return ps.first, within
	}
	id := ps.first.self.Within(within)
	return ps.at(id.Proc.Seat), id.Name
}

// Neighbours are the procs of this process, this one among them. Packages that extend the runtime (cast)
// ask.
func (p *Proc) Neighbours() []*Proc { return p.process.procs() }

// First is the first proc of this process: itself, when it is alone.
func (p *Proc) First() *Proc { return p.process.first }

// sendBeside hands an envelope to another proc of this process. An error is its fate.
func (p *Proc) sendBeside(o *outbound) error {
	q := p.process.at(o.to.Proc.Seat)
	if q == nil {
		return errorf(CodeNoProc, o.to.String(), o.port, "process %s has no proc %s", p.self, o.to.Proc)
	}
	e := o.envelope
	e.Actor, e.Port = o.to.Name, o.port
	err := q.takeFrom(p.id.Actor(e.Sender), e)
	if err == nil || o.wait == nil || !e.Wait || !errors.Is(err, ErrMailboxFull) {
		return err
	}
	ctx, cancel := p.bounded(o.wait)
	defer cancel()
	if from, ok := o.wait.Value(senderKey{}).(*instance); ok {
		from.yield()
	}
	for errors.Is(err, ErrMailboxFull) {
		to := q.find(o.to.Name)
		if to == nil {
			return err
		}
		if room := to.full(); room != nil {
			select {
			case <-room:
			case <-ctx.Done():
				return err
			}
		}
		err = q.takeFrom(p.id.Actor(e.Sender), e)
	}
	return err
}

// takeFrom takes what another proc of this process says. Of the envelope nothing is kept.
func (p *Proc) takeFrom(from subjects.ActorID, e wire.Envelope) error {
	if pt := p.findPort(e.Actor, e.Port); pt != nil {
		e.Bytes, e.Body = false, e.Whole()
		return pt.recv(Incoming{From: from, Envelope: e, unknown: &p.counts.unknown})
	}
	switch e.Kind {
	case wire.Bounce:
		p.comeBack(p.find(e.Actor), string(e.Ext), nil, FromWire(e.Body))
		return nil
	case wire.Message:
	default:
		p.counts.late.Add(1)
		return nil
	}
	e.Bytes, e.Body = false, e.Whole()
	return p.message(from, nil, &e)
}
