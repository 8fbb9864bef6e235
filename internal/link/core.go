package link

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Instant is a point in time: nanoseconds by any clock that only goes forward.
type Instant = int64

// Never is the deadline of a message that has none.
const Never Instant = math.MaxInt64

// Core decides everything about the links of one process, and does nothing: events come in as calls
// with the time, what is to be done comes out of Next and Effects. It is not safe for concurrent use.
type Core struct {
	cfg   Config
	limit int // bytes the bus takes in one message
	up    bool
	life  uint64 // of the data connection: how many there were, with it

	n        uint64 // the last number given to a packet
	peers    *recent[*Peer]
	watching []*Peer // whom Tick looks at
	ready    []Publish
	inHand   *frame   // of the packet that Next returned last
	spare    []room   // room of packets that have arrived
	turn     []*Peer  // peers whose queue may go on, in turn
	queued   int      // bytes in all queues
	crowd    []*Peer  // to whom somebody waits for room, because all queues together are full
	groups   []*Group // some of whose members are owed a cast
	looked   []looked // of the cast that is being sent
	runs     []Run    // the same

	assembled int // bytes of unfinished messages of all peers
	pieced    int // and of packets: these must not wait for those, which are behind them on their links
	parked    int // bytes of packets behind gaps
	tombs     int // messages, in runs, that must not be delivered any more
	senders   int // peers whose link to us is open

	due     Instant // the earliest of the peers'; 0: never
	closed  *Error
	breaks  uint64 // how many links were broken so far
	effects []Effect
	stats   Stats
}

// Stats counts what the links of a process did.
type Stats struct {
	Sent, Retransmitted, Beats              uint64 // packets
	Delivered, Duplicates, Gaps, Overrun    uint64 // packets that came; Overrun: had to be dropped and will come again
	Undeliverable, Indeterminate, Malformed uint64 // messages
	Fenced                                  uint64 // packets of processes that are known to be dead
}

// Peer is another process and the two links with it. Its fields belong to the Core.
type Peer struct {
	id      subjects.ProcessID
	lead    subjects.ProcID // its first proc
	out     outgoing
	in      incoming
	watched bool    // it is in watching
	due     Instant // when Tick has something to do for it, at the earliest; 0: never
	inTurn  bool    // it is in turn
	dead    error   // why nothing goes there any more
	evicted bool    // the Core has forgotten it
	heard   Instant // when it was last heard of, or could not have been
	met     bool    // it was heard of, and has not said that it closes
	step    *member // of the group that it is in step with; nil: of none
}

// ID is the process.
func (p *Peer) ID() subjects.ProcessID { return p.id }

// Lead is the first proc of the process.
func (p *Peer) Lead() subjects.ProcID { return p.lead }

// Within finds an actor by its name within the process.
func (p *Peer) Within(name string) subjects.ActorID {
	if strings.IndexByte(name, '!') < 0 { // most are the first proc's
		return p.lead.Actor(name)
	}
	return p.id.Within(name)
}

// Publish is a packet for the data connection. Its memory is used again after the next call of Next.
type Publish struct {
	frame   *frame // whose memory it is; nil: its own
	Subject string // "" is where packets for To go
	To      *Peer  // nil for a cast
	N       uint64 // with Hint: what the hint's subject ends in
	Hint    bool   // nobody knows whether anybody listens there
	Data    []byte
	again   bool // it stands for what is to leave To once more
}

// EffectKind says what is to be done.
type EffectKind uint8

const (
	Control EffectKind = iota + 1 // publish Packet and Body on the control lane of Peer; of an Urgent the Body is all
	Told                          // a message has its fate, and it is not that it was delivered
	Broken                        // the link to Peer, or from it, is over, and Err says why: what waits for answers of it waits in vain
	Room                          // who waits for room to Peer may look again
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

// Mark is what a sender wants back with the fate of a message.
type Mark struct {
	Sender, Type string // of the actor and of its message
	To           *Target
	Call         any // what waits for the answer, an Asker if it is to know which links that needs; nil for a post
}

// Asker waits for an answer. It is told a serial when its question is queued, before anything else happens to
// the links: a Broken of the peer with that serial or a later one ends its wait, one with an earlier serial was
// of a link that its question is not on. Asked must not block.
type Asker interface{ Asked(serial uint64) }

// Target is a port of a peer. Whoever sends to it keeps and reuses it.
type Target struct {
	Peer        *Peer
	Actor, Port string
	Subject     string // where a message alone goes
}

// Reason says why a message was not delivered, or is not known to have been.
type Reason uint8

const (
	Refused   Reason = iota + 1 // the receiver says why
	Expired                     // its time was over
	NoProcess                   // nobody listens there
	Dead                        // the process is known to be dead
	LinkOver                    // the link was given up
	Full                        // too much waits for that process already
	TooLarge                    // larger than any message may be
	Closed                      // this process has closed its links
	NoBus                       // the bus is gone for good
	Departed                    // the peer has closed its links, as it said it would
)

// Fate is what became of Count messages in a row that were not delivered for all that is known.
type Fate struct {
	Mark   Mark
	Peer   *Peer
	Count  int
	Known  bool // no handler runs it; else that cannot be known
	Reason Reason
	Text   string
	Why    []byte // of Refused: a wire.Error
}

// Error is the fate of a message that was not even queued.
type Error struct {
	Reason Reason
	Text   string
	Err    error // of Dead: what the caller said
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrForgotten says that the peer of a Target was forgotten: make another.
	ErrForgotten = errors.New("link: the peer was forgotten")

	errClosed = &Error{Reason: Closed, Text: wire.ClosedText}
)

// NewCore returns a Core that has heard of nobody. limit is what the bus takes in one message.
func NewCore(cfg Config, limit int) *Core {
	cfg = cfg.withDefaults()
	return &Core{cfg: cfg, limit: limit, up: true, life: 1, n: cfg.First, peers: newRecent[*Peer](cfg.Peers)}
}

// Peer finds a process, or gets to know it.
func (c *Core) Peer(id subjects.ProcessID) *Peer {
	p, forgotten := c.peers.use(id)
	if forgotten != nil {
		c.forget(forgotten)
	}
	if *p == nil {
		*p = &Peer{id: id, lead: id.Proc()}
	}
	return *p
}

// Known finds a process that is known; nil for another.
func (c *Core) Known(id subjects.ProcessID) *Peer {
	if p := c.peers.get(id); p != nil {
		return *p
	}
	return nil
}

// forget drops a peer that was silent longest: its link breaks as loudly as by a loss (LINK-12).
func (c *Core) forget(p *Peer) {
	c.giveUp(p, LinkOver, fmt.Sprintf("%s was forgotten: more than %d others were heard of since", p.id, c.cfg.Peers))
	c.shut(p, math.MaxUint64)
	p.evicted = true
}

// deaf reports whether what a peer says is nobody's any more.
func (c *Core) deaf(p *Peer) bool { return p.dead != nil || p.evicted || c.closed != nil }

// watch makes Tick look at a peer, at a time at the latest; 0: there is no hurry.
func (c *Core) watch(p *Peer, at Instant) {
	p.due, c.due = soonest(p.due, at), soonest(c.due, at)
	if !p.watched {
		p.watched = true
		c.watching = append(c.watching, p)
	}
}

// Effects returns what is to be done since the last call. The slice is used again after the next one.
func (c *Core) Effects(into []Effect) []Effect {
	into = append(into, c.effects...)
	clear(c.effects)
	c.effects = c.effects[:0]
	return into
}

func (c *Core) do(e Effect) { c.effects = append(c.effects, e) }

// broken says that the link to a peer, or from it, is over.
func (c *Core) broken(p *Peer, why *Error) {
	c.breaks++
	c.do(Effect{Kind: Broken, Peer: p, Err: why, Serial: c.breaks})
}

func (c *Core) control(p *Peer, kind wire.PacketKind, body any) {
	c.do(Effect{Kind: Control, Peer: p, Packet: kind, Body: body})
}

// Down says that the data connection is lost. What was ready is as good as lost with it: it is missed as
// what was on the way is, and cut anew when the next server takes less.
func (c *Core) Down() { c.up, c.ready, c.life = false, nil, c.life+1 }

// Up says that there is a data connection again, to a server that takes limit bytes: who owes an
// acknowledgement is asked for it, and who sends to us learns that we were away.
func (c *Core) Up(now Instant, limit int) {
	c.up, c.limit = true, limit
	c.levelAll()
	for _, p := range c.watching {
		p.heard = max(p.heard, now)
		c.watch(p, now)
		if p.out.asks() {
			p.out.beatGap = 0
			c.beat(now, p)
		}
		c.toTurn(p)
		if p.in.start != 0 {
			c.control(p, wire.Resume, nil)
		}
	}
}

// Limit says what the bus takes in one message from now on.
func (c *Core) Limit(limit int) { c.limit = limit }

// Die says that a process is dead, and why: nothing goes there any more, and what it says is nobody's.
func (c *Core) Die(now Instant, p *Peer, why error) {
	if p.dead != nil {
		return
	}
	p.dead = why
	c.giveUp(p, Dead, why.Error())
	c.shut(p, 0)
}

// Dead is why nothing goes to a process; nil when nothing is known against it.
func (c *Core) Dead(p *Peer) error { return p.dead }

// Bye tells those who send to us, or to whom we have sent, that the links are about to be closed.
func (c *Core) Bye() {
	c.peers.newest(c.cfg.Peers, func(p *Peer) {
		if p.met && p.dead == nil {
			c.ready = append(c.ready, Publish{To: p, Data: wire.AppendHead(nil, wire.Head{Kind: wire.Bye, Known: c.known(p)})})
		}
	})
}

// Close says what has arrived and gives every message that has no fate one; nothing is sent any more.
func (c *Core) Close(why *Error) {
	if c.closed != nil {
		return
	}
	c.closed = why
	c.levelAll()
	for _, p := range c.watching {
		if p.in.sayAt != 0 {
			c.state(p.in.sayAt, p)
		}
		c.giveUp(p, why.Reason, why.Text)
		c.shut(p, 0)
	}
	c.ready, c.turn = nil, nil
}

// Due is when Tick has something to do, at the earliest; 0: after the next event, if ever.
func (c *Core) Due() Instant { return c.due }

// Tick does what is due.
func (c *Core) Tick(now Instant) {
	c.due = 0
	c.tickGroups(now)
	kept := c.watching[:0]
	for _, p := range c.watching {
		if p.due != 0 && p.due <= now {
			p.due = 0
			p.due = soonest(p.due, soonest(c.tickOut(now, p), c.tickIn(now, p)))
		}
		if p.due == 0 && p.out.idle() && p.in.idle() {
			p.watched = false
			continue
		}
		kept = append(kept, p)
		c.due = soonest(c.due, p.due)
	}
	clear(c.watching[len(kept):])
	c.watching = kept
}

// soonest is the earlier of two times, of which 0 and Never are never: it is 0 then.
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
