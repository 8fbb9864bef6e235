package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// names are those of actors: the first two handle messages, the others receive answers.
var names = [...]string{"a0", "a1", "s0", "s1"} // read only

func actorOf(name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

const mailboxSize = 3

// A proc is a process: a Core with its driver, and actors with mailboxes.
type proc struct {
	w        *world
	index    int
	id       subjects.ProcessID
	core     *Core
	alive    bool
	paused   bool
	woke     Instant
	backlog  [2][]event // what comes meanwhile, by lane
	writesAt Instant    // when its socket takes packets again
	tickAt   Instant    // when the next evTick is; 0: none is planned
	limit    int        // of the server it is connected to
	conns    [2]conn    // by lane

	boxes   [2][]mail // mailboxes of the first two actors
	taking  [2]bool
	peers   []*Peer   // by index of the process
	dead    []bool    // the same: it was told so
	last    [][16]int // the same: the last message that entered, by sender and receiver
	waiting []*pending
	credits map[[2]int]*waitCredit // by index of the process, and actor
	effects []Effect
	barrier []barrier
	groups  []*castGroup
	dropped []*Group

	hand      []byte // the packet that was published last, and what it was
	published []byte
	spoilt    int // how much of the memory that is kept

	next *proc      // its next incarnation
	seen []packetOf // of a mutant
	was  packetOf   // the same
}

// mail is a message in a mailbox.
type mail struct {
	record  int
	from    *proc
	wait    int // of SendWait: its cost
	reply   bool
	cast    uint64 // its number, when its answer says that it is here
	request *creditRequest
}

// start makes a process.
func (w *world) start() *proc {
	p := &proc{w: w, index: len(w.procs), id: w.ids[len(w.procs)], alive: true, limit: w.limits[0],
		credits: map[[2]int]*waitCredit{}}
	p.core = NewCore(w.cfg, p.limit)
	p.core.isDead = func(id subjects.ProcessID) error {
		if i := slices.Index(w.ids, id); i < len(p.dead) && p.dead[i] {
			return deadError{}
		}
		return nil
	}
	w.procs = append(w.procs, p)
	for _, q := range w.procs {
		q.grow(len(w.procs))
	}
	for _, q := range w.procs {
		w.learn(p, q)
	}
	return p
}

func (p *proc) grow(n int) {
	for len(p.peers) < n {
		p.peers, p.dead = append(p.peers, nil), append(p.dead, false)
		p.last = append(p.last, [16]int{})
		for lane := range p.conns {
			p.conns[lane].pipes = append(p.conns[lane].pipes, 0)
			p.conns[lane].interest = append(p.conns[lane].interest, 0)
		}
	}
}

// peer is another process in the state of this one's Core.
func (p *proc) peer(q *proc) *Peer {
	if was := p.peers[q.index]; was == nil || was.evicted {
		p.peers[q.index] = p.core.Peer(q.id)
	}
	return p.peers[q.index]
}

func (p *proc) procOf(peer *Peer) *proc {
	return p.w.procs[slices.Index(p.w.ids, peer.id)]
}

func (p *proc) target(q *proc, actor int) *Target {
	return &Target{Peer: p.peer(q), Actor: names[actor], Port: "p", Subject: "p." + names[actor]}
}

// act is the next action of a program.
func (w *world) act(p *proc) {
	to := w.other(p)
	if to == nil {
		return
	}
	sender, actor := 2+w.rng.IntN(2), w.rng.IntN(2)
	var until Instant
	if w.chance(0.5) {
		until = w.now + Instant(50*time.Millisecond) + w.rng.Int64N(int64(3*time.Second))
	}
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.post(p, to, sender, actor, w.size(), until, 0)
	case n < 50:
		w.postMany(p, to, sender, actor, until)
	case n < 65:
		for range 1 + w.rng.IntN(2)*w.rng.IntN(6) {
			w.postWait(p, &pending{to: to, sender: sender, actor: actor, size: w.size(), until: until})
		}
	case n < 75:
		w.post(p, to, sender, actor, w.size(), until, isCall)
	case n < 96:
		w.castSome(p, sender, actor, until)
	default:
		p.barrier = append(p.barrier, barrier{p.core.Barrier(w.now), len(w.history.records)})
	}
}

func (w *world) size() int {
	switch n := w.rng.IntN(20); {
	case n < 14:
		return 8 + w.rng.IntN(40)
	case n < 17:
		return 8 + w.rng.IntN(500)
	}
	return 8 + w.rng.IntN(w.faults.large)
}

// other draws a receiver.
func (w *world) other(p *proc) *proc {
	q := w.procs[w.rng.IntN(len(w.procs))]
	if q == p {
		return nil
	}
	return q
}

const (
	isCall = 1 << iota
	isWait
	isAnswer
	isBurst
	isCreditRequest
)

// post sends a message that is alone in its group.
func (w *world) post(p, to *proc, sender, actor, size int, until Instant, flags int) bool {
	g := w.history.group(p)
	return w.send(p, to, sender, actor, size, until, flags, g)
}

// postMany sends indistinguishable messages.
func (w *world) postMany(p, to *proc, sender, actor int, until Instant) {
	g, size := w.history.group(p), 8+w.rng.IntN(60)
	if until == 0 {
		until = w.now + Instant(time.Second)
	}
	for range 2 + w.rng.IntN(12) {
		w.send(p, to, sender, actor, size, until, isBurst, g) // they leave together
	}
}

// body is the content of a message: its record's index, and a pattern.
func body(record, size int) []byte {
	b := bytes.Repeat([]byte{byte(record)}, size)
	binary.BigEndian.PutUint64(b, uint64(record))
	return b
}

func (w *world) send(p, to *proc, sender, actor, size int, until Instant, flags, g int) bool {
	r := w.history.record(p, to, sender, actor, size, g)
	e := wire.Envelope{Kind: wire.Message, Sender: names[sender], Body: body(r, size), Wait: flags&isWait != 0}
	m, at := Mark{Type: groupName(g)}, p.target(to, actor)
	w.history.records[r].wait = flags&isWait != 0
	switch {
	case flags&isCall != 0:
		e.Reply, m.Call = "r", w
	case flags&isCreditRequest != 0:
		e.Reply, m.Call, at.Port = "q", w.requests[g], creditPort
	case flags&isAnswer != 0:
		e.Kind = wire.Value
	}
	err := p.core.Send(w.now, at, &e, m, until)
	w.logf("%d sends #%d of group %d to %d, %s to %s, %d bytes, flags %d: %v", p.index, r, g, to.index,
		names[sender], names[actor], size, flags, err)
	if err != nil {
		w.history.void(r)
		return w.notSent(err)
	}
	if flags&isBurst == 0 {
		w.flush(p)
	}
	return true
}

// notSent checks that a message that was not queued has a reason.
func (w *world) notSent(err error) bool {
	switch e, ok := errors.AsType[*Error](err); {
	case ok && e.Reason != 0:
		w.counts.NotSent[e.Reason]++
	case !errors.Is(err, ErrEvicted): // of a group made before: package actor makes another
		w.fail("not sent for no reason: %v", err)
	}
	return false
}

// enter puts a message into its mailbox, or says why not.
func (w *world) enter(p, from *proc, e *wire.Envelope, cast uint64) (why []byte) {
	actor, sender := actorOf(e.Actor), actorOf(e.Sender)
	if len(e.Body) < 8 || actor < 0 || sender < 0 {
		w.fail("%d got a message that nobody sent: %+v", p.index, e)
		return nil
	}
	r := int(binary.BigEndian.Uint64(e.Body))
	if e.Kind == wire.Cast {
		r = w.history.member(r, p)
	}
	full := actor < 2 && p.counted(actor) >= mailboxSize && e.Port != creditPort && !e.Wait
	w.logf("%d gets #%d from %d; no room: %t", p.index, r, from.index, full)
	if full {
		w.counts.Refused++
		return bytes.Repeat([]byte("full"), 1+w.rng.IntN(10)*w.rng.IntN(2)*w.rng.IntN(2)*w.rng.IntN(30))
	}
	w.history.enter(w, r, p, from, sender, actor, e)
	if actor >= 2 { // an answer needs no room
		w.onGrant(r, e)
		return nil
	}
	if e.Port == creditPort {
		w.onRequest(p, from, r, actor)
		return nil
	}
	wait := 0
	if e.Wait {
		wait = len(e.Body) + messageCost
	}
	p.boxes[actor] = append(p.boxes[actor], mail{r, from, wait, e.Reply != "", cast, nil})
	w.auditWaits(p)
	w.takeSoon(p, actor)
	return nil
}

func (w *world) takeSoon(p *proc, actor int) {
	if !p.taking[actor] && len(p.boxes[actor]) > 0 {
		p.taking[actor] = true
		w.at(w.soon(w.faults.handling), evTake, p, actor, nil)
	}
}

// takeUp handles some of a mailbox.
func (w *world) takeUp(p *proc, actor int) {
	p.taking[actor] = false
	for range 1 + w.rng.IntN(mailboxSize) {
		if len(p.boxes[actor]) == 0 {
			return
		}
		m := p.boxes[actor][0]
		p.boxes[actor] = p.boxes[actor][1:]
		w.counts.Handled++
		if m.request != nil {
			w.grant(p, m.request)
		}
		if m.cast != 0 {
			w.answerCast(p, m.from, m.cast)
		}
		if m.reply {
			w.post(p, m.from, actor, 2+w.rng.IntN(2), w.size(), 0, isAnswer)
		}
	}
	w.takeSoon(p, actor)
}
