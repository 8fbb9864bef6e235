package actor

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Group is a set of ports in different processes, for repeated casts. Packages that extend the
// runtime (cast) create and drop it.
type Group struct {
	to      []subjects.PortID
	targets []*target
	links   *link.Group
	stale   atomic.Bool
}

// Group creates a group of ports in other processes, one per process. It returns an error if one of
// them is unreachable.
func (p *Proc) Group(to []subjects.PortID) (*Group, error) {
	g := &Group{to: to}
	members := make([]*link.Target, len(to))
	for i, port := range to {
		t, err := p.target(port.Actor, port.Port)
		if err != nil {
			return nil, err
		}
		g.targets = append(g.targets, t)
		members[i] = t.Target
	}
	g.links = link.NewGroup(members)
	return g, nil
}

// IsStale reports whether the links have forgotten a member: make another group.
func (g *Group) IsStale() bool { return g.stale.Load() }

// DropGroup is the end of a group.
func (p *Proc) DropGroup(g *Group) { p.links.DropGroup(g.links) }

// Multicast is one message to a group.
type Multicast struct {
	Subject  string // where it goes; "": to each member by itself
	To       *Group
	Envelope wire.Envelope
	Type     string    // of the message, for people
	Until    time.Time // when its fate must be known; zero: the default
	// GroupExt and MemberExt return the ext of the packet to all, and of a packet to one member:
	// see link.Cast.
	GroupExt  func(prevs []link.Run) ([]byte, error)
	MemberExt func(member int) ([]byte, error)
	// OnFate takes the fate of a member that the message did not reach, on any goroutine; it must
	// not block. nil: the message becomes a dead letter.
	OnFate func(to subjects.ProcID, why *Error)
	// ReplyAcks lets the answers of receivers stand for acknowledgements; report them by
	// CastReplyReceived.
	ReplyAcks bool

	Seq uint64 // set: its number, for the receivers of the group's packet; 0: there are none
}

// CastReplyReceived reports that members of a group have answered the cast with number n.
func (p *Proc) CastReplyReceived(g *Group, n uint64, members []int) {
	p.links.ReplyReceived(g.links, n, members)
}

// BounceTo returns a message as a dead letter to its sending actor in this proc: see
// DeadLetterHandler. "" stands for the client.
func (p *Proc) BounceTo(from, typ string, why *Error) { p.bounceLocal(p.find(from), typ, nil, why) }

// fateFunc is a teller.
type fateFunc func(to subjects.ProcID, why *Error)

func (f fateFunc) onFate(to subjects.ProcID, why *Error) { f(to, why) }

// Multicast publishes one packet to many processes, as the next message on the link to each
// (DEL-3). If the link of a member cannot take it now, the member gets a packet of its own. failed
// holds the members without a packet, with the reasons.
func (p *Proc) Multicast(m *Multicast) (failed map[int]error, err error) {
	e := m.Envelope
	if p.id.Index > 0 {
		e.Sender = p.id.Actor(e.Sender).LocalName()
	}
	k := &link.Cast{
		Subject: m.Subject, Group: m.To.links, Envelope: &e, Until: p.links.At(m.Until),
		GroupExt: m.GroupExt, MemberExt: m.MemberExt, Mark: link.Mark{Type: m.Type}, ReplyAcks: m.ReplyAcks,
	}
	if m.OnFate != nil {
		k.Mark.Call = fateFunc(m.OnFate)
	}
	failed, err = p.links.Cast(k)
	m.Seq = k.Seq
	for i, why := range failed {
		if errors.Is(why, link.ErrEvicted) {
			p.targets.drop(m.To.targets[i])
			m.To.stale.Store(true)
		}
		to := m.To.to[i]
		failed[i] = p.sendError(to.Actor.Proc, to.Actor.String(), to.Port, why)
	}
	return failed, busError("", "", err)
}
