package actor

import (
	"slices"

	"github.com/castnet-io/castnet/internal/wire"
)

// endpointQueue is one endpoint's part of a mailbox. It is typed: messages are stored as they are,
// and a message without pointers costs no memory of its own. The actor's lock guards incoming
// messages. The current batch belongs to the turn; after drain, to its caller.
type endpointQueue interface {
	method() *method
	pushDelivery(d *Delivery)               // adds a message other than by send
	pushRemote(r *remoteBatch)              // adds a batch from another process
	pushMulticast(f *LocalMulticast, i int) // adds recipient i of a multicast
	swap()                                  // swaps in the queued messages; the lock is held
	serve(in *instance, n int)              // handles the rest of a run of n messages, until interrupted
	clearBatch()                            // drops the handled batch
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

// queuedMessage is a message in an endpoint queue. A plain one has neither reply nor delivery.
type queuedMessage[M, R any] struct {
	m         M
	from      *instance    // the actor that sent it, when that lives in this proc
	trace     *wire.Trace  // of a plain one; nil: none
	reply     *reply[R]    // a waiting caller in this process
	delivery  *Delivery    // set for other sources; it holds the message itself
	remote    *remoteBatch // set for a batch from another process, or a multicast
	recipient int          // the index in a LocalMulticast
}

// typedQueue is the queue of an endpoint with messages M and answers R.
type typedQueue[M, R any] struct {
	b          *boundEndpoint[M, R]
	in, out    *messageBuf[M, R]
	pos        int    // the next of out
	posInBatch int    // the next message of a remote batch
	blocks     blocks // the turn's
	stats      endpointStats
	smallBufs  [2]messageBuf[M, R]
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

func (l *typedQueue[M, R]) method() *method          { return &l.b.method }
func (l *typedQueue[M, R]) counts() *endpointStats   { return &l.stats }
func (l *typedQueue[M, R]) pushDelivery(d *Delivery) { push(l, queuedMessage[M, R]{delivery: d}) }

func (l *typedQueue[M, R]) pushRemote(r *remoteBatch) { push(l, queuedMessage[M, R]{remote: r}) }

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
		l.pos = 0
		l.posInBatch = 0
	}
}

func (l *typedQueue[M, R]) clearBatch() {
	clear(l.out.messages)
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
	for in.mailbox.servedOfRun < n && in.mailbox.claim() {
		in.mailbox.servedOfRun++
		lt := &l.out.messages[l.pos]
		i := l.posInBatch
		l.posInBatch++
		if l.posInBatch == lt.remote.count() {
			l.pos++
			l.posInBatch = 0
		}
		switch {
		case lt.remote != nil && lt.remote.multicast != nil:
			serveMulticast(l, in, lt.remote.multicast.turnAt(lt.recipient))
		case lt.remote != nil:
			serveRemote(l, in, lt.remote, i)
		case lt.delivery != nil:
			serveDelivery(l, in, lt.delivery)
		case lt.reply != nil:
			serveCall(l, in, lt)
		default:
			serveSend(l, in, lt)
		}
		if in.mailbox.turnClaims == in.mailbox.sample.pos {
			in.recordSample(&l.stats)
		}
	}
}

// serveSend handles a message without a waiting caller. Its Context belongs to the actor and is
// reused.
func serveSend[M, R any](l *typedQueue[M, R], in *instance, lt *queuedMessage[M, R]) {
	ctx := in.mailbox.contextFor(lt.trace)
	ctx.from, ctx.remote = lt.from, nil
	invoke(l, in, ctx, lt.m)
}

// serveRemote is serveSend for a message from another process.
func serveRemote[M, R any](l *typedQueue[M, R], in *instance, r *remoteBatch, i int) {
	raw := r.messages[i].Body(r.data)
	m, ok := decodeBytes[M](raw, &l.blocks)
	if !ok {
		var err error
		d := r.delivery(raw)
		m, err = argument[M](&l.b.method, in.id(), d, &in.proc.counts.unknown)
		if err != nil { // the sender's fault: the actor goes on
			in.proc.deadLetters.reject(d, err)
			return
		}
	}
	ctx := in.mailbox.contextFor(r.trace)
	if ctx.remote != r {
		ctx.from, ctx.remote = nil, r
	}
	invoke(l, in, ctx, m)
}

func invoke[M, R any](l *typedQueue[M, R], in *instance, ctx *Context, m M) {
	if in.currentCtx != ctx {
		in.currentCtx = ctx
	}
	_, err := l.b.handle(in.actor, ctx, m)
	if ctx.deferred != nil {
		ctx.deferred, err = nil, nil
	}
	if err != nil {
		l.stats.failed.Add(1)
		in.onUnawaitedError(&l.b.method, ctx, err)
	}
}

// serveCall handles a message of a caller in this process.
func serveCall[M, R any](l *typedQueue[M, R], in *instance, lt *queuedMessage[M, R]) {
	rp := lt.reply
	ctx := &rp.ctx
	ctx.from = lt.from
	ctx.answer = rp
	ctx.local = true
	in.currentCtx = ctx
	in.mailbox.answeredCalls = true
	v, err := l.b.handle(in.actor, ctx, lt.m)
	if err != nil {
		l.stats.failed.Add(1)
	}
	ctx.finish()
	switch {
	case ctx.deferred != nil:
	case err == nil:
		rp.sendAnswer(v, nil)
	default:
		rp.sendAnswer(v, ranError(err))
	}
}

// serveDelivery handles a message from the bus, or one of another type than the endpoint's.
func serveDelivery[M, R any](l *typedQueue[M, R], in *instance, d *Delivery) {
	m, err := argument[M](&l.b.method, in.id(), d, &in.proc.counts.unknown)
	if err != nil { // the sender's fault: the actor goes on
		in.proc.deadLetters.reject(d, err)
		return
	}
	ctx := d.context(in)
	if !d.beginHandling(ctx) {
		return
	}
	in.currentCtx = ctx
	v, err := l.b.handle(in.actor, ctx, m)
	if err != nil {
		l.stats.failed.Add(1)
	}
	ctx.finish()
	switch {
	case ctx.deferred != nil:
	case err == nil:
		batched := completeWith(d, v, in.mailbox.turnClaims < in.mailbox.batchSize)
		in.mailbox.batchesReplies = batched || in.mailbox.batchesReplies
	case !d.awaitsAnswer():
		in.onUnawaitedError(&l.b.method, ctx, err)
	default:
		d.complete(nil, ranError(err))
	}
}

func (l *typedQueue[M, R]) sides() (in, out queueSide) {
	return typedSide[M, R]{l.b, l.in.messages}, typedSide[M, R]{l.b, l.out.messages}
}

// typedSide is a pile of messages M.
type typedSide[M, R any] struct {
	b        *boundEndpoint[M, R]
	messages []queuedMessage[M, R]
}

func (s typedSide[M, R]) reject(p *Proc, from, to int, why *Error) {
	why = why.withEndpoint(s.b.name)
	for _, lt := range s.messages {
		n := lt.remote.count()
		first := max(from, 0)
		end := min(to, n)
		from -= n
		to -= n
		if first >= end {
			continue
		}
		switch {
		case lt.remote != nil && lt.remote.multicast != nil:
			lt.remote.multicast.turnAt(lt.recipient).reject(p, s.b.in, why)
		case lt.remote != nil:
			lt.remote.refuse(first, end, s.b.in, why)
		case lt.delivery != nil:
			lt.delivery.typ = s.b.in
			p.deadLetters.reject(lt.delivery, why)
		case lt.reply != nil:
			var none R
			lt.reply.sendAnswer(none, why)
		default:
			p.deadLetters.bounce(lt.from, s.b.in, lt.m, why)
		}
	}
}

// decodeBytes decodes simple messages directly.
func decodeBytes[M any](raw []byte, b *blocks) (m M, ok bool) {
	if to, is := any(&m).(*[]byte); is {
		var body []byte
		body, ok = wire.Bytes(raw)
		if ok {
			*to = b.clone(body)
		}
	}
	return m, ok
}
