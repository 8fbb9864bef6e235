package link

import (
	"github.com/castnet-io/castnet/internal/wire"
)

// Cast is one message to many processes.
type Cast struct {
	Subject  string // where it goes; "": to each member by itself
	Group    *Group
	Envelope *wire.Envelope // without an Ext; its memory is not written to after the cast
	// GroupExt returns the ext of the published packet, from the previous numbers of the members,
	// run by run in their order. The slice is reused.
	GroupExt func(prevs []Run) ([]byte, error)
	// AloneExt returns the ext of a packet to one member, the same for each. It is called once at
	// most.
	AloneExt func() ([]byte, error)
	Mark     Mark
	Until    Instant
	// ReplyAcks lets answers stand for acknowledgements; the caller reports them by ReplyReceived.
	// Receivers of the published packet then need not acknowledge it for ReplyAckDelay.
	ReplyAcks bool

	Seq uint64 // set: the number shared by the members of the published packet; 0: there are none

	alone *wire.Envelope // to a member by itself; nil: there was none yet
	whole *parts         // the same encoded, if it is large: all members share it
}

// prepareAlone makes the envelope to a member by itself. It encodes a large one once for all
// members, unless it is too large to send.
func (k *Cast) prepareAlone(threshold, most int) error {
	if k.alone != nil {
		return nil
	}
	ext, err := k.AloneExt()
	if err != nil {
		return err
	}
	e := *k.Envelope
	e.Ext = ext
	k.alone = &e
	if n := e.BodyLen(); n > threshold && n+len(ext) <= most {
		k.whole = encodeParts(k.Group.members[0].to, k.alone, threshold) // the names are the same
		if len(k.Group.members) > 1 {
			k.whole.cast = &sharedCast{subject: k.Subject, group: k.Group, ext: k.GroupExt}
		}
	}
	return nil
}

// Run is Count consecutive members with one previous packet: a number, 0 for a link opened by the
// cast, or one of the two marks below.
type Run struct {
	Count int
	Prev  uint64
}

// Marks of a member in place of a number.
const (
	AllAcked    = ^uint64(0)     // it has acknowledged everything
	NotIncluded = ^uint64(0) - 1 // it is not meant by this packet
)

// plannedMember is a checked member, with its previous packet.
type plannedMember struct {
	m    *member
	prev uint64
}

// Cast takes one number for all members and prepares one packet (LINK-7). A member gets a packet of
// its own if its link has a queue or no credit, or if the packet is too large for it. failed holds
// the members without any packet. With err there is no packet at all.
func (snd *sender) Cast(now Instant, k *Cast) (failed map[int]error, err error) {
	g := k.Group
	if k.Until == 0 {
		k.Until = now + Instant(snd.cfg.DefaultDeadline)
	}
	if joined := snd.planCast(g, k); joined > 0 {
		if err := snd.castToGroup(now, k, g, joined); err != nil {
			return nil, err
		}
	}
	for _, l := range snd.castPlan {
		if l.prev != NotIncluded {
			continue
		}
		if err := snd.castToMember(now, k, l.m); err != nil {
			if failed == nil {
				failed = map[int]error{}
			}
			failed[l.m.index] = err
		}
	}
	return failed, nil
}

// castToMember sends a cast to one member by itself.
func (snd *sender) castToMember(now Instant, k *Cast, m *member) error {
	if err := k.prepareAlone(snd.chunkSize(), snd.cfg.MaxMessage); err != nil {
		return err
	}
	e := *k.alone
	return snd.SendWhole(now, m.to, &e, k.whole, k.Mark, k.Until, nil)
}

// castHeadSize is the room for the previous packets of members in different states.
func castHeadSize(members int) int { return min(members*12, 64<<10) }

// planCast determines each member's previous packet, and the number of recipients. It checks the
// lagging members only. If the synced ones cannot all take the cast, it makes all of them lagging.
func (snd *sender) planCast(g *Group, k *Cast) (joined int) {
	size := k.Envelope.BodyLen() + packetCost + headMargin
	fits := k.Subject != "" && snd.connected && snd.closed == nil &&
		size+castHeadSize(len(g.members)) <= snd.chunkSize()+headMargin
	if most := uint64(size + castHeadSize(len(g.members)-g.synced)); fits && most <= snd.syncedReserve() {
		snd.ensureBacklogRoom(g, most)
	} else {
		snd.leaveAll(g)
	}
	snd.castPlan = snd.castPlan[:0]
	for m := range g.laggingMembers() {
		prev := NotIncluded
		if fits {
			prev = snd.castPrev(m.to.Peer, uint64(size))
		}
		if prev != NotIncluded {
			joined++
		}
		snd.castPlan = append(snd.castPlan, plannedMember{m, prev})
	}
	return g.synced + joined
}

// castPrev returns the previous packet of a lagging member.
func (snd *sender) castPrev(p *Peer, size uint64) uint64 {
	snd.leave(p) // from another group
	o := &p.out
	if snd.ignores(p) || !o.idleQueue() || !o.hasCredit(size) {
		return NotIncluded
	}
	return o.castPrev()
}

// castPrev is the previous packet of an included member.
func (o *outgoing) castPrev() uint64 {
	if o.openSeq == 0 {
		return 0
	}
	if len(o.sent) == 0 {
		return AllAcked
	}
	return o.lastSeq
}

// castToGroup publishes a cast for the included members. If their previous packets do not fit, it
// excludes all of them.
func (snd *sender) castToGroup(now Instant, k *Cast, g *Group, joined int) (err error) {
	e := *k.Envelope
	e.Ext, err = snd.castExt(k, g)
	if err != nil {
		return err
	}
	if e.Size()+headroom > snd.limit {
		snd.leaveAll(g)
		snd.castPlan = snd.castPlan[:0]
		for m := range g.laggingMembers() {
			snd.castPlan = append(snd.castPlan, plannedMember{m, NotIncluded})
		}
		return nil
	}
	f := newFrame(now, g.members[0].to)
	m := k.Mark
	m.Sender = e.Sender
	m.To = f.to // of all members: the names are the same
	f.add(&e, f.to, &m, k.Until)
	f.open = false
	f.subject = k.Subject
	f.replyAcks = k.ReplyAcks
	snd.lastSeq++
	k.Seq = snd.lastSeq
	snd.stats.Sent += uint64(joined)
	f.castPacket = f.packet(wire.Head{Kind: wire.Data, Seq: snd.lastSeq})
	snd.deferCast(now, g, f)
	for _, l := range snd.castPlan {
		if l.prev != NotIncluded {
			snd.track(now, l.m.to.Peer, snd.lastSeq, f)
			snd.join(l.m)
		}
	}
	snd.ready = append(snd.ready, Publish{Subject: k.Subject, Seq: snd.lastSeq, Data: f.castPacket,
		hops: f.hops})
	return nil
}

// castExt makes the ext of a packet for all members.
func (snd *sender) castExt(k *Cast, g *Group) ([]byte, error) {
	snd.runs = snd.runs[:0]
	at := 0
	for _, l := range snd.castPlan {
		snd.addRun(l.m.index-at, g.lastSeq)
		snd.addRun(1, l.prev)
		at = l.m.index + 1
	}
	snd.addRun(len(g.members)-at, g.lastSeq)
	return k.GroupExt(snd.runs)
}

// addRun appends members to the runs of a cast.
func (snd *sender) addRun(count int, prev uint64) {
	if last := len(snd.runs) - 1; last >= 0 && snd.runs[last].Prev == prev {
		snd.runs[last].Count += count
	} else if count > 0 {
		snd.runs = append(snd.runs, Run{count, prev})
	}
}
