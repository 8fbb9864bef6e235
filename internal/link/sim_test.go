package link

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// A world is some processes, each a Core driven as Links drive it, over a model of the bus, in
// virtual time. Its seed determines everything.
type world struct {
	seed   uint64
	rng    *rand.Rand
	now    Instant
	events queue
	serial uint64
	steps  int // events that happened to processes that were alive and not paused

	cfg     Config
	limits  []int // what servers take
	faults  faults
	procs   []*proc
	ids     []subjects.ProcessID
	history history
	counts  *counts
	mutant  *mutant
	log     io.Writer // nil: nobody looks
	faulty  bool      // faults still happen
	quiet   bool      // none do
	failed  string    // the first violation

	waitWindow  int
	allRequests []*creditRequest
	requests    map[int]*creditRequest // by group
	grants      map[int]*creditRequest // by the record of the answer
}

// Times of a run: messages are sent and faults happen for a while, then everything must settle.
const (
	begin  = Instant(time.Second)
	span   = Instant(2500 * time.Millisecond)
	healed = begin + span + Instant(time.Second)
	// links between the living: the last request for credit that a fault can hide is over, and answered
	settles = healed + requestTimeout + Instant(time.Second)
	ends    = healed + Instant(24*time.Second) // what must wait for silence
	// and who is taken for dead and is not, until the last who waits for room has tried
	liesEnd  = healed + Instant(90*time.Second)
	maxStep  = 200_000
	minSteps = 200
)

// eventKind is the kind of an event at a process.
type eventKind uint8

const (
	evPacket eventKind = iota + 1
	evTick
	evSend
	evTake
	evCut
	evFind // it finds out that its connection was cut
	evUp
	evPause
	evWake
	evKill
	evStart
	evDie // it is told that another is dead
	evForge
	evReplay
	evLimit
	evWrites  // its socket takes packets again
	evReached // another has answered a cast of its
	evAsk     // the time for a request for credit is over
)

type event struct {
	at     Instant
	serial uint64
	kind   eventKind
	proc   *proc
	arg    int
	packet *packet
}

// queue is a heap of events: the next one is the first.
type queue []event

func (q queue) less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].serial < q[j].serial
}

func (q *queue) push(e event) {
	*q = append(*q, e)
	for h, i := *q, len(*q)-1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (q *queue) pop() event {
	h := *q
	next, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < last && h.less(child, least) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return next
}

// at schedules an event of a process.
func (w *world) at(at Instant, kind eventKind, p *proc, arg int, k *packet) {
	w.serial++
	w.events.push(event{max(at, w.now), w.serial, kind, p, arg, k})
}

// newWorld makes a world with processes about to send.
func newWorld(seed uint64, ids []subjects.ProcessID, f faults, m *mutant, n *counts, log io.Writer) *world {
	w := &world{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0xca57)), now: begin, ids: ids, counts: n, mutant: m,
		log: log, faulty: true,
		requests: map[int]*creditRequest{}, grants: map[int]*creditRequest{},
	}
	w.faults, w.quiet = f, seed%8 == 0
	w.cfg, w.limits = w.config()
	w.cfg = w.cfg.withDefaults()
	for range 2 + w.rng.IntN(3) {
		w.start()
	}
	w.plan()
	return w
}

// config draws small bounds, so that all are reached.
func (w *world) config() (Config, []int) {
	w.waitWindow = 400 + w.rng.IntN(1000)
	c := Config{
		PacketSize: 100 + w.rng.IntN(400), ChunkSize: 300 + w.rng.IntN(500), ChunksInFlight: 1 + w.rng.IntN(4),
		MaxMessage:    12 << 10,
		AssemblyBytes: 8000 + w.rng.IntN(20<<10), Outbox: 3000 + w.rng.IntN(8000), OutboxAll: 12 << 10,
		InitialWindow: 800 + w.rng.IntN(2000), Window: 3000 + w.rng.IntN(6000), WindowAll: 12 << 10,
		AckEvery: 2 + w.rng.IntN(8), SilenceTimeout: 8 * time.Second, ReconnectGrace: time.Second,
		DefaultDeadline: 3 * time.Second,
		MaxOutOfOrder:   2 + w.rng.IntN(12), MaxOutOfOrderBytes: 4000, MaxOutOfOrderTotal: 6000,
		MaxRefusals: 2 + w.rng.IntN(10), MaxPeers: 1 << 20,
	}
	if w.chance(0.5) { // room to be in step with casts
		c.InitialWindow, c.WindowAll = 9000+w.rng.IntN(12_000), 100_000
		c.Window = c.InitialWindow + w.rng.IntN(20_000)
	}
	limits := []int{headMargin + 200 + w.rng.IntN(2000), headMargin + 200 + w.rng.IntN(500)}
	if !w.quiet && w.chance(0.2) { // packets that a server with a smaller limit does not take
		c.ChunkSize, c.PacketSize, c.Outbox, limits[0] = 7000, 7000, 12<<10, 12<<10
		w.faults.large, w.faults.shrink = 14<<10, w.faults.shrink+3
	}
	return c, limits
}

func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// soon is a random time up to a bound from now.
func (w *world) soon(most time.Duration) Instant { return w.now + w.rng.Int64N(int64(most)+1) }

func (w *world) fail(format string, args ...any) {
	if w.failed == "" {
		w.failed = fmt.Sprintf("at %s: ", time.Duration(w.now)) + fmt.Sprintf(format, args...)
		w.logf("FAILED %s", w.failed)
	}
}

func (w *world) logf(format string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, "%12s %s\n", time.Duration(w.now), fmt.Sprintf(format, args...))
	}
}

// run handles all events up to a time.
func (w *world) run(until Instant) {
	for len(w.events) > 0 && w.failed == "" && w.events[0].at <= until {
		e := w.events.pop()
		w.now = e.at
		w.handle(e)
	}
	w.now = max(w.now, until)
}

func (w *world) handle(e event) {
	p := e.proc
	if !p.alive {
		if e.kind == evReplay && p.next != nil {
			w.replayNext(e.packet, p.next)
		}
		return
	}
	if p.paused && e.kind != evWake && e.kind != evKill && e.kind != evCut {
		p.defer_(e)
		return
	}
	if w.steps++; w.steps > maxStep {
		w.fail("no end after %d events", w.steps)
	}
	switch e.kind {
	case evPacket:
		w.arrive(p, e.packet)
	case evTick:
		if e.at < p.tickAt || p.tickAt == 0 {
			return
		}
		p.tickAt = 0
		p.core.Tick(w.now)
	case evSend:
		w.act(p)
	case evTake:
		w.takeUp(p, e.arg)
	default:
		w.strike(p, e)
	}
	w.flush(p)
	if w.steps%16 == 0 {
		w.audit()
	}
}

// simulate runs a seed and returns the violation; "" for none.
func simulate(seed uint64, ids []subjects.ProcessID, m *mutant, n *counts, log io.Writer) string {
	w := newWorld(seed, ids, drawFaults(seed), m, n, log)
	w.run(begin + span)
	for at := begin + span; w.steps < minSteps && w.failed == ""; at += Instant(100 * time.Millisecond) {
		w.sendMore() // where little has happened
		w.run(min(at, healed))
	}
	w.run(healed)
	w.heal()
	w.run(settles)
	w.checkSettled()
	end := ends
	if f := w.faults; f.lies > 0 {
		end = liesEnd
	}
	w.run(end)
	w.checkEnd()
	w.ping()
	w.run(end + Instant(3*time.Second))
	before := len(w.history.records)
	w.ping()
	w.run(end + Instant(6*time.Second))
	w.checkPings(before)
	if w.steps < minSteps {
		n.Short++
	}
	n.Seeds++
	n.Steps += uint64(w.steps)
	n.Virtual += time.Duration(w.now - begin)
	w.history.sum(n)
	return w.failed
}
