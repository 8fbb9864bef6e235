package actor

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Group is a port in each of many processes, to be cast to again and again. Packages that extend the
// runtime (cast) make it, and drop it.
type Group struct {
	to      []subjects.PortID
	targets []*target
	links   *link.Group
	stale   atomic.Bool
}

// Group makes a group of ports in other processes, each process once. An error says that there is no way to
// one of them.
func (p *Proc) Group(to []subjects.PortID) (*Group, error) {
	g := &Group{to: to}
	members := make([]*link.Target, len(to))
	for i, port := range to {
		t, err := p.target(port.Actor, port.Port)
		if err != nil {
			return nil, err
		}
		g.targets, members[i] = append(g.targets, t), t.Target
	}
	g.links = link.NewGroup(members)
	return g, nil
}

// Stale reports whether the links have forgotten a member: make another group.
func (g *Group) Stale() bool { return g.stale.Load() }

// Drop is the end of a group.
func (p *Proc) Drop(g *Group) { p.links.Drop(g.links) }

// Multicast is one message to a group.
type Multicast struct {
	Subject  string // where it goes; "": to each member by itself
	To       *Group
	Envelope wire.Envelope
	Type     string    // of the message, for people
	Until    time.Time // when its fate must be known; zero: the default
	// Head and Alone make the ext of the packet that goes to all, and of one that goes to a member by
	// itself: see link.Cast.
	Head  func(prevs []link.Run) ([]byte, error)
	Alone func(member int) ([]byte, error)
	// Told takes the fate of a member that the message did not reach, on any goroutine; it must not
	// block. nil: it comes back as a posted one.
	Told func(to subjects.ProcID, why *Error)
	// Answers says that whoever gets it with the others answers, which Reached is told: that stands for an
	// acknowledgement.
	Answers bool

	N uint64 // set: its number, for those who get it with the others; 0: nobody does
}

// Reached says that members of a group have answered the cast with number n.
func (p *Proc) Reached(g *Group, n uint64, members []int) { p.links.Reached(g.links, n, members) }

// ComeBack says that a message which an actor of this proc posted reached somebody not: see Undeliverer. ""
// stands for the client.
func (p *Proc) ComeBack(from, typ string, why *Error) { p.comeBack(p.find(from), typ, nil, why) }

// told is a teller.
type told func(to subjects.ProcID, why *Error)

func (f told) told(to subjects.ProcID, why *Error) { f(to, why) }

// Multicast publishes one packet to many processes, as the next message on the link to each (DEL-3). A
// member whose link cannot take it now gets it by itself. failed says why nothing was sent to a member.
func (p *Proc) Multicast(m *Multicast) (failed map[int]error, err error) {
	e := m.Envelope
	if p.id.Seat > 0 {
		e.Sender = p.id.Actor(e.Sender).Within()
	}
	k := &link.Cast{
		Subject: m.Subject, Group: m.To.links, Envelope: &e, Until: p.links.At(m.Until),
		Runs: m.Head, Alone: m.Alone, Mark: link.Mark{Type: m.Type}, Answers: m.Answers,
	}
	if m.Told != nil {
		k.Mark.Call = told(m.Told)
	}
	failed, err = p.links.Cast(k)
	m.N = k.N
	for i, why := range failed {
		if errors.Is(why, link.ErrForgotten) {
			p.targets.forget(m.To.targets[i])
			m.To.stale.Store(true)
		}
		to := m.To.to[i]
		failed[i] = p.sendError(to.Actor.Proc, to.Actor.String(), to.Port, why)
	}
	return failed, busError("", "", err)
}
