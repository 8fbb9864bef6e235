package actor

import (
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// endpointQueue is one endpoint's part of a mailbox. It is typed: messages are stored as they are,
// and a message without pointers costs no memory of its own. The actor's lock guards incoming
// messages. The current batch belongs to the turn; after drain, to its caller.
type endpointQueue interface {
	pushDelivery(d *Delivery, q *request, n int) // adds the first n messages of a Delivery
	swap()                                       // swaps in the queued messages; the lock is held
	serve(in *instance, n int)                   // handles the rest of a run of n messages, until interrupted
	clearBatch()                                 // drops the handled batch
	// releases the buffers of a burst; the queue is empty, and the lock is held
	shrink()
	sides() (in, out queueSide)
	counts() *endpointStats
}

// queueSide is one side of an endpoint queue: incoming or current batch.
type queueSide interface {
	// reject notifies the senders of the messages [from, to) that no handler will run them.
	reject(p *Proc, from, to int, why *Error)
}

// queuedMessage is a message in an endpoint queue. One without a delivery is typed: m itself.
type queuedMessage[M, R any] struct {
	m        M
	from     *instance   // the actor that sent m; nil: the client
	trace    *wire.Trace // of m without a reply; nil: none
	reply    *reply[R]   // the caller that waits for the answer to m; nil: none
	delivery *Delivery   // set: the message or messages, in place of m
	request  *request    // of the delivery at this actor; nil: it has bodies
}

// typedQueue is the queue of an endpoint with messages M and answers R. Senders write the first
// fields, and the turn uses the last ones: a cache line lies between.
type typedQueue[M, R any] struct {
	b         *boundEndpoint[M, R]
	in        *messageBuf[M, R]
	smallBufs [2]messageBuf[M, R]

	stats  endpointStats
	blocks blocks // the turn's

	out        *messageBuf[M, R]
	batch      []queuedMessage[M, R] // those of out
	pos        int                   // the next of batch
	posInBatch int                   // the next message of a remote batch
}

// messageBuf is the storage of queued messages. A queue has two small buffers of its own. The large
// ones of a burst come from a pool shared by all actors of a type, and go back there.
type messageBuf[M, R any] struct{ messages []queuedMessage[M, R] }

// Sizes of buffers, in messages.
const (
	smallBuf = 8
	largeBuf = 128 // at first
)

func newTypedQueue[M, R any](b *boundEndpoint[M, R]) *typedQueue[M, R] {
	l := &typedQueue[M, R]{b: b}
	l.shrink()
	return l
}

func (l *typedQueue[M, R]) counts() *endpointStats { return &l.stats }

func (l *typedQueue[M, R]) pushDelivery(d *Delivery, q *request, n int) {
	if d.bodies != nil {
		d.keep(n)
	}
	push(l, queuedMessage[M, R]{delivery: d, request: q})
}

func push[M, R any](l *typedQueue[M, R], lt queuedMessage[M, R]) {
	if len(l.in.messages) == cap(l.in.messages) {
		reserve(l, 1)
	}
	l.in.messages = append(l.in.messages, lt)
}

// reserve makes room for n more messages.
func reserve[M, R any](l *typedQueue[M, R], n int) {
	if need := len(l.in.messages) + n; need > smallBuf && need > cap(l.in.messages) {
		useLargeBuf(l)
	}
	l.in.messages = slices.Grow(l.in.messages, n)
}

// useLargeBuf moves the incoming messages from a small buffer to a large one.
func useLargeBuf[M, R any](l *typedQueue[M, R]) {
	if l.in != &l.smallBufs[0] && l.in != &l.smallBufs[1] {
		return // reserve does it
	}
	large, ok := l.b.bufs.Get().(*messageBuf[M, R])
	if !ok {
		large = &messageBuf[M, R]{make([]queuedMessage[M, R], 0, largeBuf)}
	}
	large.messages = append(large.messages, l.in.messages...)
	clear(l.in.messages)
	l.in.messages = l.in.messages[:0]
	l.in = large
}

func (l *typedQueue[M, R]) swap() {
	if len(l.in.messages) > 0 { // else the batch has another run of this queue, already taken
		l.in, l.out = l.out, l.in
		l.batch = l.out.messages
		l.pos = 0
		l.posInBatch = 0
	}
}

func (l *typedQueue[M, R]) clearBatch() {
	clear(l.batch)
	l.batch = nil
	l.out.messages = l.out.messages[:0]
	l.pos = 0
	l.posInBatch = 0
}

func (l *typedQueue[M, R]) shrink() {
	for _, r := range []*messageBuf[M, R]{l.in, l.out} {
		if r != nil && r != &l.smallBufs[0] && r != &l.smallBufs[1] {
			l.b.bufs.Put(r)
		}
	}
	l.in = &l.smallBufs[0]
	l.out = &l.smallBufs[1]
	l.blocks = blocks{}
}

func (l *typedQueue[M, R]) serve(in *instance, n int) {
	b := in.mailbox
	for b.servedOfRun < n && b.claim() {
		b.servedOfRun++
		lt := &l.batch[l.pos]
		i := l.posInBatch
		l.posInBatch++
		if l.posInBatch == lt.delivery.count() {
			l.pos++
			l.posInBatch = 0
		}
		switch {
		case lt.delivery != nil:
			serveDelivery(l, in, lt, i)
		case lt.reply != nil:
			ctx := &lt.reply.ctx
			ctx.from = lt.from
			ctx.answer = lt.reply
			ctx.local = true
			b.answeredCalls = true
			handle(l, in, lt, lt.m, ctx)
		default: // messages that nobody waits for share one Context
			ctx := b.contextFor(lt.trace)
			ctx.from, ctx.delivery = lt.from, nil
			handle(l, in, lt, lt.m, ctx)
		}
		if b.turnClaims == b.sample.pos {
			in.recordSample(&l.stats)
		}
	}
}

// serveDelivery decodes the i-th message of a Delivery, and handles it. If it is not an M, or
// its sender has no role for it, the sender gets an error, and the actor goes on.
func serveDelivery[M, R any](l *typedQueue[M, R], in *instance, lt *queuedMessage[M, R], i int) {
	d := lt.delivery
	if q := lt.request; q != nil {
		if !q.begin(in) {
			return
		}
		m, err := argument[M](&l.b.method, in, d)
		if err == nil && in.def.comparesRoles {
			if why := in.deny(&l.b.method, &q.ctx, m); why != nil {
				err = why
			}
		}
		if err != nil {
			in.proc.deadLetters.reject(q, l.b.in, err)
			return
		}
		handle(l, in, lt, m, &q.ctx)
		return
	}
	m, err := decode[M](&l.b.method, in, d.format, d.bodies[i].Body(d.Raw), &l.blocks)
	if err != nil {
		in.proc.deadLetters.giveBack(d, l.b.in, err)
		return
	}
	ctx := in.mailbox.contextFor(d.Trace)
	if ctx.delivery != d {
		ctx.from, ctx.delivery = nil, d
	}
	if in.def.comparesRoles {
		if why := in.deny(&l.b.method, ctx, m); why != nil {
			in.proc.deadLetters.giveBack(d, l.b.in, why)
			return
		}
	}
	handle(l, in, lt, m, ctx)
}

// handle runs the handler of a message, and answers.
func handle[M, R any](l *typedQueue[M, R], in *instance, lt *queuedMessage[M, R], m M, ctx *Context) {
	if in.currentCtx != ctx {
		in.currentCtx = ctx
	}
	var act *auditRecord
	if l.b.audited {
		act = newAuditRecord(l.b.name, ctx, m)
	}
	awaited := lt.reply != nil || lt.request != nil && lt.request.awaitsAnswer()
	if ctx.trace != nil {
		in.startHandlerSpan(ctx, l.b.name, awaited)
	}
	v, err := l.b.handle(in.actor, ctx, m)
	if err != nil {
		l.stats.failed.Add(1)
	}
	deferred := ctx.deferred
	if ctx.trace != nil {
		in.endHandlerSpan(deferred, err)
	}
	if act != nil {
		act.onHandled(ctx, deferred, err)
	}
	if lt.reply != nil || lt.request != nil {
		ctx.finish()
	} else if deferred != nil {
		ctx.deferred = nil // it is used again
	}
	switch {
	case deferred != nil && (err == nil || awaited):
		if err != nil {
			deferred.complete(nil, ranError(err))
		}
	case lt.reply != nil:
		if err != nil {
			err = ranError(err)
		}
		lt.reply.sendAnswer(v, err)
	case awaited:
		if answer(l, lt.request, v, err, in.mailbox.turnClaims < in.mailbox.batchSize) {
			in.mailbox.batchesReplies = true
		}
	case err != nil:
		in.onUnawaitedError(&l.b.method, ctx, err)
	}
}

// answer gives the sender of a request the outcome of its handler. If more answers are about to
// follow, one to another process may wait for those; batched reports whether it does.
func answer[M, R any](l *typedQueue[M, R], q *request, v R, err error, more bool) (batched bool) {
	switch {
	case err != nil:
		q.complete(nil, ranError(err))
	case q.Answer != nil && l.b.byValue:
		q.countAnswer()
		q.Answer(q.view, Answer{Value: v})
	case q.Answer != nil:
		q.complete(v, nil)
	default:
		q.replyTo.batch = more
		ob := &q.replyTo.p.outbox
		e := wire.Envelope{Kind: wire.Value}
		buf, err := encode(ob, &e, v)
		q.respond(&e, err)
		ob.release(buf, e.Body)
		return more
	}
	return false
}

func (l *typedQueue[M, R]) sides() (in, out queueSide) {
	return typedSide[M, R]{l.b, l.in.messages}, typedSide[M, R]{l.b, l.batch}
}

// typedSide is a pile of messages M.
type typedSide[M, R any] struct {
	b        *boundEndpoint[M, R]
	messages []queuedMessage[M, R]
}

func (s typedSide[M, R]) reject(p *Proc, from, to int, why *Error) {
	why = why.withEndpoint(s.b.name)
	for _, lt := range s.messages {
		n := lt.delivery.count()
		first := max(from, 0)
		end := min(to, n)
		from -= n
		to -= n
		if first >= end {
			continue
		}
		switch {
		case lt.request != nil:
			p.deadLetters.reject(lt.request, s.b.in, why)
		case lt.delivery != nil:
			lt.delivery.rejectBodies(p, first, end, s.b.in, why)
		case lt.reply != nil:
			var none R
			lt.reply.sendAnswer(none, why)
		default:
			p.deadLetters.bounce(lt.from, s.b.in, lt.m, why)
		}
	}
}
