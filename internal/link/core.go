package link

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Instant is a point in time: nanoseconds of a monotonic clock.
type Instant = int64

// Never is the deadline of a message without one.
const Never Instant = math.MaxInt64

// Core makes all decisions about the links of one process, without side effects. Events come in as
// calls with the time; packets and effects come out of Next and Effects. It is not safe for
// concurrent use.
type Core struct {
	common
	sender
	receiver
	peers  *lru
	isDead func(subjects.ProcessID) error // why a process without a Peer is dead; nil: none is
}

// common is the part of a Core that both directions of links use.
type common struct {
	cfg       Config
	limit     int // bytes the bus takes in one message
	connected bool
	watching  []*Peer // peers that Tick checks
	nextTick  Instant // the earliest of the peers'; 0: never
	closed    *Error
	resets    uint64 // how many links were broken so far
	effects   []Effect
	stats     Stats
}

// Stats counts events on the links of a process.
type Stats struct {
	// packets
	Sent          uint64 `json:"sent"`
	Retransmitted uint64 `json:"retransmitted"`
	Beats         uint64 `json:"beats"`
	// received packets
	Delivered  uint64 `json:"delivered"`
	Duplicates uint64 `json:"duplicates"`
	Gaps       uint64 `json:"gaps"`
	Overrun    uint64 `json:"overrun"` // dropped, and sent again later
	Fenced     uint64 `json:"fenced"`  // of dead processes
	// messages
	Undeliverable uint64 `json:"undeliverable"`
	Indeterminate uint64 `json:"indeterminate"`
	Malformed     uint64 `json:"malformed"`
	Denied        uint64 `json:"denied"` // publications that the server did not permit
}

// Add adds up the counts of two processes.
func (s Stats) Add(o Stats) Stats {
	return Stats{
		Sent: s.Sent + o.Sent, Retransmitted: s.Retransmitted + o.Retransmitted, Beats: s.Beats + o.Beats,
		Delivered: s.Delivered + o.Delivered, Duplicates: s.Duplicates + o.Duplicates, Gaps: s.Gaps + o.Gaps,
		Overrun: s.Overrun + o.Overrun, Undeliverable: s.Undeliverable + o.Undeliverable,
		Indeterminate: s.Indeterminate + o.Indeterminate, Malformed: s.Malformed + o.Malformed,
		Fenced: s.Fenced + o.Fenced, Denied: s.Denied + o.Denied,
	}
}

// Peer is another process and the two links with it. Its fields belong to the Core.
type Peer struct {
	id        subjects.ProcessID
	lead      subjects.ProcID // its first proc
	sender    subjects.Sender // of its first packet; zero: none came (LINK-14)
	out       outgoing
	in        incoming
	scheduled bool    // it is in watching
	nextTick  Instant // when Tick has something to do for it, at the earliest; 0: never
	inTurn    bool    // it is in turn
	dead      error   // why the link to it is closed
	evicted   bool    // the Core has forgotten it
	lastHeard Instant // when it was last heard of, or could not have been
	heardFrom bool    // it was heard from
	leftAt    Instant // when it said goodbye; 0: it has not, or was heard from long after
	synced    *member // of its synced group; nil: none
	suspect   suspect
}

// ID is the process.
func (p *Peer) ID() subjects.ProcessID { return p.id }

// Lead is the first proc of the process.
func (p *Peer) Lead() subjects.ProcID { return p.lead }

// ActorByLocalName finds an actor by its name within the process.
func (p *Peer) ActorByLocalName(name string) subjects.ActorID {
	if strings.IndexByte(name, '!') < 0 { // most are the first proc's
		return p.lead.Actor(name)
	}
	return p.id.ActorByLocalName(name)
}

// Publish is a packet for the data connection. Its memory is used again after the next call of
// Next.
type Publish struct {
	frame    *frame // the owner of its memory; nil: its own
	Subject  string // "" is where packets for To go
	To       *Peer  // nil for a cast
	Seq      uint64 // with Hint: the end of the hint's subject
	WantHint bool   // the peer's subscription is not confirmed
	Data     []byte
	hops     *wire.Hops // for its headers; nil: it has none
	resend   bool       // a placeholder for packets to resend to To
}

// EffectKind is the kind of an effect.
type EffectKind uint8

const (
	// publish Packet and Body on the control connection of Peer; an Urgent has only the Body
	EffectControl EffectKind = iota + 1
	EffectFate               // a message has a fate other than delivery
	// the link to or from Peer is over, with the reason Err: outstanding answers will not come
	EffectBroken
	EffectRoom   // senders waiting for room to Peer should check again
	EffectForget // Peer said goodbye, was silent since, and is forgotten
	Suspect      // ask servers whether Peer is there: the reply goes to OnAsked
)

// Effect is something to be done.
type Effect struct {
	Kind   EffectKind
	Peer   *Peer
	Packet wire.PacketKind
	Body   any
	Fate   Fate
	Err    error
	Serial uint64 // of Broken: see Asker
}

// Mark identifies a message in its fate, for the sender.
type Mark struct {
	Sender, Type string // of the actor and of its message
	To           *Target
	Call         any // the waiting call, an Asker if it needs its serial; nil for a send
}

// Asker waits for an answer. Asked receives a serial when the request is queued, before any later
// event of the links. A Broken of the peer with that serial or a later one ends the wait. An
// earlier serial belongs to a link without that request. Asked must not block.
type Asker interface{ Asked(serial uint64) }

// Target is a port of a peer. Senders keep and reuse it.
type Target struct {
	Peer        *Peer
	Actor, Port string
	Subject     string // where a message alone goes
}

// Reason is the cause of an undelivered or indeterminate message.
type Reason uint8

const (
	Refused     Reason = iota + 1 // by the receiver, with its reason
	Expired                       // its time was over
	NoProcess                     // no subscriber on its subject
	Dead                          // the process is known to be dead
	LinkReset                     // the link was given up
	QueueFull                     // the queue to that process is full
	TooLarge                      // larger than any message may be
	LinksClosed                   // this process has closed its links
	BusClosed                     // the bus is gone for good
	PeerClosed                    // the peer has closed its links, after its goodbye
	Denied                        // the server does not permit the subject
)

// Fate is the fate of Count consecutive messages not known to be delivered.
type Fate struct {
	Mark   Mark
	Peer   *Peer
	Count  int
	Known  bool // no handler runs it; else it may have run
	Reason Reason
	Text   string
	Why    []byte // of Refused: a wire.Error
}

// Error is the fate of a message that was never queued.
type Error struct {
	Reason Reason
	Text   string
	Err    error // of Dead: the caller's error
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrEvicted reports that the peer of a Target was evicted: make another.
	ErrEvicted = errors.New("link: the peer was evicted")

	errClosed = &Error{Reason: LinksClosed, Text: wire.ClosedText}
)

// NewCore returns a Core without peers. limit is the bus's maximum message size.
func NewCore(cfg Config, limit int) *Core {
	cfg = cfg.withDefaults()
	c := &Core{common: common{cfg: cfg, limit: limit, connected: true}, peers: newLRU(cfg.MaxPeers)}
	c.receiver = receiver{common: &c.common}
	c.sender = sender{common: &c.common, acks: &c.receiver, connEpoch: 1, lastSeq: cfg.FirstSeq}
	return c
}

// Peer finds a process, or gets to know it. A dead process is not remembered.
func (c *Core) Peer(id subjects.ProcessID) *Peer {
	if c.isDead != nil && c.peers.get(id) == nil {
		if why := c.isDead(id); why != nil {
			return &Peer{id: id, lead: id.Proc(), dead: why}
		}
	}
	p, forgotten := c.peers.touch(id)
	if forgotten != nil {
		c.evict(forgotten, LinkReset, fmt.Sprintf("%s was evicted: more than %d other peers were active since",
			forgotten.id, c.cfg.MaxPeers))
	}
	if *p == nil {
		*p = &Peer{id: id, lead: id.Proc()}
	}
	return *p
}

// checkSender compares the sender of a packet with the first sender of its process (LINK-14).
// Processes with a common principal can write the names of all processes.
func (p *Peer) checkSender(by subjects.Sender) error {
	if p.sender == by {
		return nil
	}
	if p.sender.IsValid() {
		return fmt.Errorf("a packet of %s: its process spoke as %s before", by, p.sender)
	}
	p.sender = by
	return nil
}

// Lookup returns the peer of a process; nil if it is unknown.
func (c *Core) Lookup(id subjects.ProcessID) *Peer {
	if p := c.peers.get(id); p != nil {
		return *p
	}
	return nil
}

// evict ends the links of a peer that is not in peers any more, with the usual effects (LINK-11).
func (c *Core) evict(p *Peer, why Reason, text string) {
	c.resetOutgoing(p, why, text)
	c.closeIncoming(p, math.MaxUint64)
	p.evicted = true
}

// isGone reports whether a peer has died, or has said goodbye.
func (p *Peer) isGone() bool { return p.dead != nil || p.leftAt != 0 }

// forgetGone forgets a peer that is gone and was silent since. It returns the time to look again;
// 0: it is not gone, or was forgotten. Late packets of the peer have come by then (LINK-11).
func (c *Core) forgetGone(now Instant, p *Peer) Instant {
	if !p.isGone() || p.evicted {
		return 0
	}
	if due := c.silenceDeadline(p); due > now {
		return due
	}
	c.peers.drop(p.id)
	if p.dead == nil {
		c.addEffect(Effect{Kind: EffectForget, Peer: p})
	}
	c.evict(p, PeerClosed, p.id.String()+" has closed its links")
	return 0
}

// ignores reports whether packets of a peer are dropped.
func (c *common) ignores(p *Peer) bool { return p.dead != nil || p.evicted || c.closed != nil }

// scheduleTick makes Tick look at a peer, at a time at the latest; 0: there is no hurry.
func (c *common) scheduleTick(p *Peer, at Instant) {
	p.nextTick = soonest(p.nextTick, at)
	c.nextTick = soonest(c.nextTick, at)
	if !p.scheduled {
		p.scheduled = true
		c.watching = append(c.watching, p)
	}
}

// Effects returns the effects since the last call. The next call reuses the slice.
func (c *common) Effects(into []Effect) []Effect {
	into = append(into, c.effects...)
	clear(c.effects)
	c.effects = c.effects[:0]
	return into
}

func (c *common) addEffect(e Effect) { c.effects = append(c.effects, e) }

// emitBroken emits the end of a link to or from a peer.
func (c *common) emitBroken(p *Peer, why *Error) {
	c.resets++
	c.addEffect(Effect{Kind: EffectBroken, Peer: p, Err: why, Serial: c.resets})
}

func (c *common) emitControl(p *Peer, kind wire.PacketKind, body any) {
	c.addEffect(Effect{Kind: EffectControl, Peer: p, Packet: kind, Body: body})
}

// OnDisconnect records the loss of the data connection. Packets ready to leave count as lost in
// flight, and are cut again if the next server takes less.
func (c *Core) OnDisconnect() {
	c.connected = false
	c.ready = nil
	c.connEpoch++
}

// OnReconnect records a new data connection, to a server with a maximum message size of limit. It
// probes peers for outstanding acknowledgements, and tells senders that this process was away.
func (c *Core) OnReconnect(now Instant, limit int) {
	c.connected = true
	c.limit = limit
	c.catchUpAllGroups()
	for _, p := range c.watching {
		p.lastHeard = max(p.lastHeard, now)
		c.scheduleTick(p, now)
		if p.out.awaitsAck() {
			p.out.probeInterval = 0
			c.probe(now, p)
		}
		c.scheduleSend(p)
		if p.in.openSeq != 0 {
			c.emitControl(p, wire.Resume, nil)
		}
	}
}

// SetLimit sets the bus's maximum message size.
func (c *common) SetLimit(limit int) { c.limit = limit }

// MarkDead records that a process is dead, and why. Nothing is sent to it, and its packets are
// dropped.
func (c *Core) MarkDead(now Instant, p *Peer, why error) {
	if p.dead != nil {
		return
	}
	p.dead = why
	p.lastHeard = now
	c.resetOutgoing(p, Dead, why.Error())
	c.closeIncoming(p, 0)
	c.scheduleTick(p, c.silenceDeadline(p))
}

// Dead returns the reason why no message goes to a process, or nil.
func (c *Core) Dead(p *Peer) error { return p.dead }

// Goodbye tells all peers that the links are about to close.
func (c *Core) Goodbye() {
	c.peers.newest(c.cfg.MaxPeers, func(p *Peer) {
		if p.heardFrom && !p.isGone() {
			c.ready = append(c.ready,
				Publish{To: p,
					Data: wire.AppendHead(nil, wire.Head{Kind: wire.Goodbye, Ack: c.piggybackAck(p)})})
		}
	})
}

// Close acknowledges arrived packets and gives every open message a fate. Nothing is sent
// afterwards.
func (c *Core) Close(why *Error) {
	if c.closed != nil {
		return
	}
	c.closed = why
	c.catchUpAllGroups()
	for _, p := range c.watching {
		if p.in.ackAt != 0 {
			c.sendLinkState(p.in.ackAt, p)
		}
		c.resetOutgoing(p, why.Reason, why.Text)
		c.closeIncoming(p, 0)
	}
	c.ready, c.sendTurn = nil, nil
}

// Due returns the earliest time of the next Tick with work; 0: after the next event, if ever.
func (c *Core) Due() Instant { return c.nextTick }

// Tick does the due work.
func (c *Core) Tick(now Instant) {
	c.nextTick = 0
	c.tickGroups(now)
	kept := c.watching[:0]
	for _, p := range c.watching {
		if p.nextTick != 0 && p.nextTick <= now {
			p.nextTick = 0
			next := soonest(c.tickOut(now, p), c.tickIn(now, p))
			p.nextTick = soonest(p.nextTick, soonest(next, c.forgetGone(now, p)))
		}
		if p.nextTick == 0 && p.out.idle() && p.in.idle() {
			p.scheduled = false
			continue
		}
		kept = append(kept, p)
		c.nextTick = soonest(c.nextTick, p.nextTick)
	}
	clear(c.watching[len(kept):])
	c.watching = kept
}

// markHeard records that a peer was heard from.
func (c *common) markHeard(now Instant, p *Peer) {
	p.lastHeard = max(p.lastHeard, now)
	p.heardFrom = true
	if p.leftAt != 0 && now-p.leftAt > Instant(c.cfg.NoResponderGrace) { // it lives
		p.leftAt = 0
	}
	p.out.noResponderSince = 0
	p.suspect.trust()
}

// rto is how long an acknowledgement may take.
func (c *common) rto(o *outgoing) time.Duration {
	if o.srtt == 0 {
		return c.cfg.FirstRTO
	}
	return min(max(o.srtt+4*o.rttvar, c.cfg.MinRTO), c.cfg.MaxProbeInterval)
}

// silenceDeadline is the time at which a silent peer is given up.
func (c *common) silenceDeadline(p *Peer) Instant { return p.lastHeard + Instant(c.cfg.SilenceTimeout) }

// soonest returns the earlier of two times. 0 and Never stand for no time; if both are, it returns
// 0.
func soonest(a, b Instant) Instant {
	if a == 0 || b != 0 && b < a {
		a = b
	}
	if a == Never {
		return 0
	}
	return a
}

// Stats returns the counts so far.
func (c *Core) Stats() Stats { return c.stats }
