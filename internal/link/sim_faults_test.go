package link

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// faultKind is a kind of fault.
type faultKind int

const (
	faultDrop faultKind = iota
	faultDup
	faultDelay
	faultTail // published on a connection that is gone already, or lost in its buffers
	faultOldTail
	faultLag
	faultHint
	faultCut
	faultControlCut
	faultReplay
	faultNext // a late packet for the incarnation before
	faultShrink
	faultSlow
	faultChoke
	faultPause
	faultKill
	faultDie
	faultFalseDie
	faultForge
	faultKinds
)

var faultNames = [faultKinds]string{ // read only
	"drop", "duplicate", "delay", "tail lost", "old tail after reconnect", "interest lag", "hint", "cut",
	"control cut", "late replay",
	"replay to next incarnation", "payload shrink", "slow reader cut", "slow writer", "pause", "kill",
	"told dead", "told dead and is not", "forged",
}

// faults are the frequencies of faults in one run.
type faults struct {
	drop, dup, spike, replay    float64
	choke                       float64
	cuts, pauses, kills, shrink int
	lies, forge                 int
	lag, delay, handling        time.Duration
	slow                        int // bytes that a server keeps for a reader
	sends                       int
	large                       int // bytes of a message at most
}

// drawFaults draws the faults of a run; one run in eight has none.
func drawFaults(seed uint64) faults {
	rng := rand.New(rand.NewPCG(seed, 0xfa017))
	f := faults{
		delay:    time.Duration(1+rng.IntN(5)) * time.Millisecond,
		handling: time.Duration(1+rng.IntN(40)) * time.Millisecond,
		slow:     1 << 30, sends: 20 + rng.IntN(30), large: []int{2000, 5000, 13 << 10}[rng.IntN(3)],
	}
	if seed%8 == 0 {
		return f
	}
	some := func(p float64, draw func()) {
		if rng.Float64() < p {
			draw()
		}
	}
	some(0.6, func() { f.drop = []float64{0.01, 0.05, 0.2, 0.4}[rng.IntN(4)] })
	some(0.3, func() { f.dup = []float64{0.02, 0.2}[rng.IntN(2)] })
	some(0.4, func() { f.spike = []float64{0.01, 0.1}[rng.IntN(2)] })
	some(0.3, func() { f.replay = 0.05 })
	some(0.4, func() { f.cuts = 1 + rng.IntN(4) })
	some(0.3, func() { f.pauses = 1 + rng.IntN(2) })
	some(0.3, func() { f.slow = 300 + rng.IntN(2000) })
	some(0.3, func() { f.kills = 1 })
	some(0.3, func() { f.shrink = 1 + rng.IntN(5) })
	some(0.05, func() { f.lies = 1 })
	some(0.15, func() { f.forge = 1 + rng.IntN(10) })
	some(0.2, func() { f.choke = []float64{0.02, 0.2}[rng.IntN(2)] })
	some(0.3, func() { f.lag = time.Duration(rng.IntN(400)) * time.Millisecond })
	return f
}

// plan spreads messages and faults over the time of a run.
func (w *world) plan() {
	spread := func(n int, kind eventKind) {
		for range n {
			p := w.procs[w.rng.IntN(len(w.procs))]
			w.at(w.soon(time.Duration(span)), kind, p, 0, nil)
		}
	}
	spread(w.faults.sends, evSend)
	for range w.rng.IntN(4) { // bursts
		p, at := w.procs[w.rng.IntN(len(w.procs))], w.soon(time.Duration(span))
		for range 15 {
			w.at(at, evSend, p, 0, nil)
		}
	}
	spread(w.faults.cuts, evCut)
	spread(w.faults.pauses, evPause)
	spread(w.faults.kills, evKill)
	spread(w.faults.lies, evDie)
	spread(w.faults.shrink, evLimit)
	spread(w.faults.forge, evForge)
}

// sendMore makes all live processes send; a lone survivor gets company.
func (w *world) sendMore() {
	alive := slices.DeleteFunc(slices.Clone(w.procs), func(p *proc) bool { return !p.alive })
	if len(alive) == 1 && len(w.procs) < len(w.ids) {
		alive = append(alive, w.start())
	}
	for i := range 5 * len(alive) {
		w.at(w.now, evSend, alive[i%len(alive)], 0, nil)
	}
}

// strike begins or ends a fault.
func (w *world) strike(p *proc, e event) {
	switch e.kind {
	case evCut:
		w.cut(p, w.rng.IntN(4)/3) // the data connection, mostly
	case evFind:
		w.find(p, e.arg)
	case evUp:
		w.reconnect(p, e.arg)
	case evPause:
		w.logf("%d is paused", p.index)
		w.counts.Faults[faultPause]++
		p.paused = true
		w.at(min(w.soon(2*time.Second), healed), evWake, p, 0, nil)
	case evAsk:
		w.outcome(w.allRequests[e.arg], lost)
	case evReached:
		w.reached(p, uint64(e.arg), e.packet.from)
	case evWake:
		w.wake(p)
	case evKill:
		w.kill(p)
	case evDie:
		w.reportDeath(p, e.arg)
	case evLimit:
		w.counts.Faults[faultShrink]++
		p.limit = w.limits[w.rng.IntN(len(w.limits))]
		p.core.SetLimit(p.limit)
	case evForge:
		w.forge(p)
	case evReplay:
		w.replay(p, e.packet)
	}
}

// cut ends a connection. Packets to it are lost; a part of its own packets is lost.
func (w *world) cut(p *proc, lane int) {
	c := &p.conns[lane]
	if c.cut {
		return
	}
	w.logf("%d: connection %d is cut", p.index, lane)
	w.counts.Faults[[]faultKind{faultCut, faultControlCut}[lane]]++
	c.cut = true
	c.life++
	for i := range w.events {
		if k := w.events[i].packet; k != nil && k.from == p && k.lane == lane && !k.hint && !k.held &&
			w.chance(0.5) {
			w.counts.Faults[faultTail]++
			k.lost = true
		} else if k != nil && k.from == p && k.lane == lane {
			w.counts.Faults[faultOldTail]++
		}
	}
	clear(c.pipes)
	for _, q := range w.procs {
		q.conns[lane].pipes[p.index] = 0
	}
	w.at(w.soon(200*time.Millisecond), evFind, p, lane, nil)
}

// find is the moment when a process learns of its lost connection.
func (w *world) find(p *proc, lane int) {
	if lane == data {
		p.core.OnDisconnect()
	}
	w.at(w.soon(500*time.Millisecond), evUp, p, lane, nil)
}

func (w *world) reconnect(p *proc, lane int) {
	w.logf("%d: connection %d is up again", p.index, lane)
	c := &p.conns[lane]
	c.cut = false
	for _, q := range w.procs {
		if w.faulty {
			q.conns[lane].interest[p.index] = max(q.conns[lane].interest[p.index], w.soon(w.faults.lag/4))
		}
	}
	if lane == control {
		return
	}
	if w.faults.shrink > 0 {
		w.counts.Faults[faultShrink]++
		p.limit = w.limits[w.rng.IntN(len(w.limits))]
	}
	p.core.OnReconnect(w.now, p.limit)
}

// defer_ keeps the input of a paused process. When there is too much of it, the server cuts the
// process.
func (p *proc) defer_(e event) {
	lane := data
	if e.packet != nil {
		lane = e.packet.lane
	}
	p.backlog[lane] = append(p.backlog[lane], e)
	size := 0
	for _, b := range p.backlog[lane] {
		if b.packet != nil {
			size += len(b.packet.bytes)
		}
	}
	if w := p.w; w.faulty && size > w.faults.slow && !p.conns[lane].cut {
		w.counts.Faults[faultSlow]++
		w.cut(p, lane)
	}
}

// wake continues a process: each connection in its order.
func (w *world) wake(p *proc) {
	if !p.paused {
		return
	}
	w.logf("%d wakes", p.index)
	p.paused, p.woke = false, w.now
	for !p.paused && len(p.backlog[data])+len(p.backlog[control]) > 0 {
		lane := w.rng.IntN(2)
		if len(p.backlog[lane]) == 0 {
			lane = 1 - lane
		}
		e := p.backlog[lane][0]
		p.backlog[lane] = p.backlog[lane][1:]
		w.handle(e)
	}
}

// kill ends a process for ever. Others learn of it after a while, or never; there may be a next
// incarnation.
func (w *world) kill(p *proc) {
	w.logf("%d is killed", p.index)
	w.counts.Faults[faultKill]++
	if w.chance(0.3) { // it ends in order
		p.core.Goodbye()
		w.flush(p)
		p.core.Close(errClosed)
		w.flush(p)
		w.history.settled(w, p, len(w.history.records), "when it closed")
	}
	p.alive = false
	for _, q := range w.procs {
		if q != p && q.alive && w.chance(0.6) {
			w.at(w.soon(2*time.Second), evDie, q, p.index+1, nil)
		}
	}
	if len(w.procs) < len(w.ids) && w.chance(0.7) {
		p.next = w.start()
		for range 10 {
			w.at(w.soon(time.Second), evSend, p.next, 0, nil)
		}
	}
}

type deadError struct{}

func (deadError) Error() string { return "it died" }

// reportDeath reports the death of one process to another, as certain or as uncertain.
func (w *world) reportDeath(p *proc, index int) {
	var q *proc
	if index > 0 {
		q = w.procs[index-1]
		w.counts.Faults[faultDie]++
	} else if q = w.other(p); q == nil || !q.alive {
		return
	} else {
		w.counts.Faults[faultFalseDie]++
	}
	w.logf("%d is told that %d is dead", p.index, q.index)
	p.core.MarkDead(w.now, p.peer(q), deadError{})
	p.dead[q.index] = true
	for _, k := range w.allRequests {
		if k.from == p && k.to == q {
			w.outcome(k, granted)
		}
	}
}

// replay delivers a packet long after it was sent.
func (w *world) replay(p *proc, k *packet) {
	w.logf("%d gets a late packet of %d", p.index, k.from.index)
	w.counts.Faults[faultReplay]++
	w.arrive(p, k)
}

// replayNext delivers a packet after its receiver's death, to the next incarnation. That has
// another address, except for packets to many.
func (w *world) replayNext(k *packet, next *proc) {
	w.counts.Faults[faultNext]++
	if k.lane == data && k.subject != "" && k.subject[0] == 'k' && next.alive {
		w.replay(next, k)
		w.flush(next)
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.logf("healed")
	w.faulty = false
	w.faults.spike, w.faults.slow = 0, 1<<30
	for _, p := range w.procs {
		if !p.alive {
			continue
		}
		w.wake(p)
		p.writesAt = 0
		for lane := range p.conns {
			clear(p.conns[lane].interest)
		}
		w.flush(p)
	}
}

// forge sends a process a packet that its peer never would.
func (w *world) forge(p *proc) {
	from := w.other(p)
	if from == nil {
		return
	}
	w.counts.Faults[faultForge]++
	const absurd = uint64(1) << 62
	p.core.catchUp(p.peer(from)) // so that this knows what the peer could
	o, in := &p.peer(from).out, &p.peer(from).in
	var kind wire.PacketKind
	var body any
	far := in.lastSeq + 1<<33 + uint64(w.rng.Int64N(1<<61))>>w.rng.IntN(28) // no peer comes to it
	switch w.rng.IntN(13) {
	case 0:
		kind, body = wire.LinkState, &wire.LinkStateBody{Progress: wire.AckState{Acked: p.core.lastSeq + 1 +
			uint64(w.rng.IntN(5)), Window: absurd}}
	case 1:
		kind, body = wire.LinkState, &wire.LinkStateBody{Progress: wire.AckState{Acked: o.acked,
			ReceivedBytes: absurd}}
		if o.acked == 0 {
			return
		}
	case 2:
		kind, body = wire.LinkState, &wire.LinkStateBody{Missing: []uint64{o.lastSeq, absurd, absurd, 1, 0},
			FirstRefusal: absurd, Refusals: []wire.Refusal{{Seq: absurd, Index: -1, Count: 1 << 62},
				{Seq: o.lastSeq + 1, Count: 1}, {Seq: o.lastSeq, Index: 1 << 60, Count: 1 << 62}}}
	case 3:
		kind, body = wire.ConfirmRefusals, &wire.ConfirmBody{Next: absurd}
	case 4:
		kind, body = wire.ReceiverReset, &wire.ResetBody{Seq: absurd, Text: "no"}
	case 5:
		kind, body = wire.FateQuery, &wire.FateQueryBody{Seq: absurd, Indexes: []int{-1, 1 << 60, 0}}
	case 6:
		kind, body = wire.FateReply, &wire.FateQueryBody{Seq: o.lastSeq,
			Indexes: []int{-5, 1 << 62, 1 << 62, 1 << 62, 7}}
	case 7:
		w.forgeData(p, from, wire.AppendHead(nil, wire.Head{Kind: wire.Probe, Seq: absurd, PrevSeq: in.lastSeq}))
		return
	case 8:
		kind, body = wire.SenderReset, &wire.ResetBody{Seq: absurd, Text: "no"}
	case 9:
		lead := uint64(w.rng.Int64N(1 << 61))
		kind, body = wire.SenderReset, &wire.ResetBody{Seq: in.lastSeq + 1 + lead>>w.rng.IntN(61), Text: "no"}
	case 10: // opens the link, or continues it
		prev := in.lastSeq * uint64(w.rng.IntN(2))
		w.forgeData(p, from, wire.AppendHead(nil, wire.Head{Kind: wire.Data, Seq: far, PrevSeq: prev}))
		return
	case 11: // behind a gap
		w.forgeData(p, from, wire.AppendHead(nil, wire.Head{Kind: wire.Data, Seq: far + 1, PrevSeq: far}))
		return
	default:
		head := wire.AppendHead(nil, wire.Head{Kind: wire.Data, Seq: uint64(w.rng.IntN(3)), PrevSeq: absurd})
		w.forgeData(p, from, append(head, 0xff, 0xff, 0xff))
		return
	}
	b, err := wire.AppendControl(nil, kind, body)
	if err != nil {
		w.fail("forge: %v", err)
	}
	w.logf("forged control from %d to %d: %d %+v", from.index, p.index, kind, body)
	w.onControl(p, &packet{from: from, lane: control, bytes: b, forged: true})
}

func (w *world) forgeData(p, from *proc, b []byte) {
	w.logf("forged from %d to %d: % x", from.index, p.index, b)
	k := &packet{from: from, bytes: b, forged: true}
	if err := w.onPacket(p, k, "", b, true); err != nil {
		w.malformed(k, err)
	}
}
