package actor

import (
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// lane is one endpoint's part of a mailbox. It is typed, so that a message is stored as it is and a
// message without pointers costs no memory of its own. What comes in is guarded by the actor's
// lock. What was taken up belongs to the turn; once the mailbox is seized, to whoever seized it.
type lane interface {
	bound() *method
	put(d *Delivery)           // adds a message that comes by another way than send
	putFar(r *farRun)          // adds those that another process posted
	putFan(f *Fan, i int)      // adds one that goes to many
	take()                     // takes up what came in; the lock is held
	serve(in *instance, n int) // handles the rest of a run of n messages, until interrupted
	handled()                  // forgets what was taken up
	rest()                     // gives back the room of a burst; the lane is empty, and the lock is held
	sides() (in, out pile)
	counts() *counts
}

// pile is the messages of one side of a lane, as it is at the moment.
type pile interface {
	// reject tells the senders of the messages from, up to to, that no handler will run them.
	reject(p *Proc, from, to int, why *Error)
}

// letter is a message in a lane. A plain one has neither reply nor delivery.
type letter[M, R any] struct {
	m        M
	from     *instance // the actor that sent it, when that lives in this proc
	reply    *reply[R] // a caller in this process that waits
	delivery *Delivery // what came by another way, and holds the message itself
	far      *farRun   // another process posted it, with others; or it goes to many
	turn     int       // of a Fan: which
}

// laneOf is a lane for messages M that are answered with R.
type laneOf[M, R any] struct {
	b       *bound[M, R]
	in, out *room[M, R]
	at      int    // the next of out
	post    int    // the next of those that it stands for
	blocks  blocks // the turn's
	n       counts
	small   [2]room[M, R]
}

// room is where letters lie. A lane has two small ones of its own; the large ones of a burst come
// from a pool that all actors of a type share, and go back there: they are paid once, not for ever.
type room[M, R any] struct{ letters []letter[M, R] }

// Sizes of rooms, in letters.
const (
	smallRoom = 8
	largeRoom = 128 // at first
)

func newLane[M, R any](b *bound[M, R]) *laneOf[M, R] {
	l := &laneOf[M, R]{b: b}
	l.rest()
	return l
}

func (l *laneOf[M, R]) bound() *method  { return &l.b.method }
func (l *laneOf[M, R]) counts() *counts { return &l.n }
func (l *laneOf[M, R]) put(d *Delivery) { l.push(letter[M, R]{delivery: d}) }

func (l *laneOf[M, R]) putFar(r *farRun) { l.push(letter[M, R]{far: r}) }

func (l *laneOf[M, R]) push(lt letter[M, R]) {
	if len(l.in.letters) == cap(l.in.letters) {
		l.reserve(1)
	}
	l.in.letters = append(l.in.letters, lt)
}

// reserve makes room for n letters more.
func (l *laneOf[M, R]) reserve(n int) {
	if need := len(l.in.letters) + n; need > smallRoom && need > cap(l.in.letters) {
		l.enlarge()
	}
	l.in.letters = slices.Grow(l.in.letters, n)
}

// enlarge moves what came in from a small room to a large one.
func (l *laneOf[M, R]) enlarge() {
	if l.in != &l.small[0] && l.in != &l.small[1] {
		return // reserve does it
	}
	large, ok := l.b.rooms.Get().(*room[M, R])
	if !ok {
		large = &room[M, R]{make([]letter[M, R], 0, largeRoom)}
	}
	large.letters = append(large.letters, l.in.letters...)
	clear(l.in.letters)
	l.in.letters = l.in.letters[:0]
	l.in = large
}

func (l *laneOf[M, R]) take() {
	if len(l.in.letters) > 0 { // else the batch has another run of this lane, and it is taken already
		l.in, l.out, l.at, l.post = l.out, l.in, 0, 0
	}
}

func (l *laneOf[M, R]) handled() {
	clear(l.out.letters)
	l.out.letters, l.at, l.post = l.out.letters[:0], 0, 0
}

func (l *laneOf[M, R]) rest() {
	for _, r := range []*room[M, R]{l.in, l.out} {
		if r != nil && r != &l.small[0] && r != &l.small[1] {
			l.b.rooms.Put(r)
		}
	}
	l.in, l.out, l.blocks = &l.small[0], &l.small[1], blocks{}
}

func (l *laneOf[M, R]) serve(in *instance, n int) {
	for in.box.served < n && in.claim() {
		in.box.served++
		lt, i := &l.out.letters[l.at], l.post
		if l.post++; l.post == lt.far.count() {
			l.at, l.post = l.at+1, 0
		}
		switch {
		case lt.far != nil && lt.far.fan != nil:
			l.spread(in, lt.far.fan.turn(lt.turn))
		case lt.far != nil:
			l.came(in, lt.far, i)
		case lt.delivery != nil:
			l.deliver(in, lt.delivery)
		case lt.reply != nil:
			l.ask(in, lt)
		default:
			l.tell(in, lt)
		}
		if in.box.claims == in.box.sample.at {
			in.sampled(&l.n)
		}
	}
}

// tell handles a message nobody waits for. Its Context is the actor's own, used again and again.
func (l *laneOf[M, R]) tell(in *instance, lt *letter[M, R]) {
	ctx := &in.box.self
	ctx.from, ctx.far = lt.from, nil
	l.run(in, ctx, lt.m)
}

// came is tell for a message that another process posted.
func (l *laneOf[M, R]) came(in *instance, r *farRun, i int) {
	in.box.taking.take(r, i)
	raw := r.posts[i].Body(r.data)
	m, ok := quick[M](raw, &l.blocks)
	if !ok {
		var err error
		d := r.delivery(raw)
		if m, err = l.b.argument(in.id(), d, &in.proc.counts.unknown); err != nil { // the sender's fault: the actor is left alone
			in.proc.undeliverable(d, err)
			return
		}
	}
	ctx := &in.box.self
	if ctx.far != r {
		ctx.from, ctx.far = nil, r
	}
	l.run(in, ctx, m)
}

func (l *laneOf[M, R]) run(in *instance, ctx *Context, m M) {
	if in.turning != ctx {
		in.turning = ctx
	}
	_, err := l.b.handle(in.actor, ctx, m)
	if ctx.owed != nil {
		ctx.owed, err = nil, nil
	}
	if err != nil {
		l.n.failed.Add(1)
		in.unanswered(&l.b.method, ctx, err)
	}
}

// ask handles a message of a caller in this process.
func (l *laneOf[M, R]) ask(in *instance, lt *letter[M, R]) {
	rp := lt.reply
	ctx := &rp.ctx
	ctx.from, ctx.answer, ctx.mail = lt.from, rp, true
	in.turning = ctx
	in.box.asked = true
	v, err := l.b.handle(in.actor, ctx, lt.m)
	if err != nil {
		l.n.failed.Add(1)
	}
	switch ctx.end(); {
	case ctx.owed != nil:
	case err == nil:
		rp.give(v, nil)
	default:
		rp.give(v, ranError(err))
	}
}

// deliver handles a message that came by the bus, or in another type than the endpoint's.
func (l *laneOf[M, R]) deliver(in *instance, d *Delivery) {
	m, err := l.b.argument(in.id(), d, &in.proc.counts.unknown)
	if err != nil { // the sender's fault: the actor is left alone
		in.proc.undeliverable(d, err)
		return
	}
	ctx := d.context(in)
	if !d.handled(ctx) {
		return
	}
	in.turning = ctx
	v, err := l.b.handle(in.actor, ctx, m)
	if err != nil {
		l.n.failed.Add(1)
	}
	switch ctx.end(); {
	case ctx.owed != nil:
	case err == nil:
		in.box.gathers = settleWith(d, v, in.box.claims < in.box.total) || in.box.gathers
	case !d.waits():
		in.unanswered(&l.b.method, ctx, err)
	default:
		d.settle(nil, ranError(err))
	}
}

func (l *laneOf[M, R]) sides() (in, out pile) {
	return pileOf[M, R]{l.b, l.in.letters}, pileOf[M, R]{l.b, l.out.letters}
}

// pileOf is a pile of messages M.
type pileOf[M, R any] struct {
	b       *bound[M, R]
	letters []letter[M, R]
}

func (s pileOf[M, R]) reject(p *Proc, from, to int, why *Error) {
	why = why.about(s.b.name)
	for _, lt := range s.letters {
		n := lt.far.count()
		first, end := max(from, 0), min(to, n)
		if from, to = from-n, to-n; first >= end {
			continue
		}
		switch {
		case lt.far != nil && lt.far.fan != nil:
			lt.far.fan.turn(lt.turn).refused(p, s.b.in, why)
		case lt.far != nil:
			lt.far.refuse(first, end, s.b.in, why)
		case lt.delivery != nil:
			lt.delivery.typ = s.b.in
			p.undeliverable(lt.delivery, why)
		case lt.reply != nil:
			var none R
			lt.reply.give(none, why)
		default:
			p.comeBack(lt.from, s.b.in, lt.m, why)
		}
	}
}

// quick decodes what is not worth the general way.
func quick[M any](raw []byte, b *blocks) (m M, ok bool) {
	if to, is := any(&m).(*[]byte); is {
		var body []byte
		if body, ok = wire.Bytes(raw); ok {
			*to = b.clone(body)
		}
	}
	return m, ok
}
