package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// requestTimeout bounds a request without a context deadline.
	requestTimeout = 30 * time.Second

	// maxQueuedReplies bounds the waiting replies of one RequestMany.
	maxQueuedReplies = 1024

	// maxStrayReplies is the same for a Request: other clients may reply before the responder.
	maxStrayReplies = 64
)

// errQuietPeriod ends a RequestMany after the quiet period.
var errQuietPeriod = errors.New("bus: quiet")

// requests holds the waiting requests of one connection. They share one wildcard subscription, so
// replies too keep BUS-1.
type requests struct {
	setupMu sync.Mutex // held while the subscription is made
	prefix  string     // of reply subjects, with its dot; "" until it is made

	mu   sync.Mutex
	next uint64
	open map[string]*request
}

// request is one request.
type request struct {
	subject string
	token   string
	accept  []func(Msg) bool
	replies chan Msg
	failed  chan error // holds one
}

// Request sends m and returns the first reply accepted by every accept; it sets m.Reply. It fails
// with ErrNoResponders or a *PermissionError as soon as the server reports one, and waits 30 s
// without a context deadline. On the data connection it does not reach a responder of the same
// connection.
//
// Streams that record a subject acknowledge requests to it, and any client may reply. A caller
// should recognize its answers by accept (BUS-8).
func (c *Conn) Request(ctx context.Context, m Msg, accept ...func(Msg) bool) (Msg, error) {
	ctx, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	cl, leave, err := c.requests.start(c, m, maxStrayReplies, accept)
	if err != nil {
		return Msg{}, err
	}
	defer leave()
	defer c.requests.remove(cl)
	return cl.next(ctx, c.bus, nil)
}

// RequestMany sends m when the loop begins and yields each reply accepted by every accept. The loop
// ends without an error at ctx's deadline (30 s without one), and when no such reply came for quiet
// since the last one (0: never). It also ends when the server reports no responders. Another error
// is yielded last.
func (c *Conn) RequestMany(
	ctx context.Context, m Msg, quiet time.Duration, accept ...func(Msg) bool,
) iter.Seq2[Msg, error] {
	return func(yield func(Msg, error) bool) {
		ctx, cancel := bounded(ctx, requestTimeout)
		defer cancel()
		cl, leave, err := c.requests.start(c, m, maxQueuedReplies, accept)
		if err != nil {
			yield(Msg{}, err)
			return
		}
		defer leave()
		defer c.requests.remove(cl)
		var pause <-chan time.Time
		for {
			reply, err := cl.next(ctx, c.bus, pause)
			switch {
			case errors.Is(err, ErrNoResponders), errors.Is(err, errQuietPeriod),
				errors.Is(err, context.DeadlineExceeded):
				return
			case err != nil:
				yield(Msg{}, err)
				return
			case !yield(reply, nil):
				return
			}
			if quiet > 0 {
				pause = time.After(quiet)
			}
		}
	}
}

// start registers a request and sends it.
func (cs *requests) start(c *Conn, m Msg, room int, accept []func(Msg) bool) (
	_ *request, leave func(), err error) {
	prefix, err := cs.replyPrefix(c)
	if err != nil {
		return nil, nil, err
	}
	c.calls.enter() // a renewal waits for the reply
	cl := cs.add(m.Subject, room, accept)
	m.Reply = prefix + cl.token
	if err := c.publishOnce(m); err != nil {
		cs.remove(cl)
		c.calls.leave()
		return nil, nil, err
	}
	return cl, c.calls.leave, nil
}

// replyPrefix returns the prefix of the connection's reply subscription, created with the first
// request.
func (cs *requests) replyPrefix(c *Conn) (string, error) {
	cs.setupMu.Lock()
	defer cs.setupMu.Unlock()
	if cs.prefix == "" {
		prefix := c.nc.NewInbox() + "."
		if _, err := c.Subscribe(prefix+"*", cs.deliver); err != nil {
			return "", fmt.Errorf("bus: listen for replies: %w", err)
		}
		cs.prefix = prefix
	}
	return cs.prefix, nil
}

// next waits for the next accepted reply. Replies already received come before the end.
func (cl *request) next(ctx context.Context, b *Bus, pause <-chan time.Time) (Msg, error) {
	var m Msg
	var end error
	for {
		if end == nil {
			select {
			case m = <-cl.replies:
			case end = <-cl.failed:
			case <-pause:
				end = errQuietPeriod
			case <-ctx.Done():
				end = fmt.Errorf("bus: request to %q: %w", cl.subject, ctx.Err())
			case <-b.done:
				end = b.closedErr()
			}
		}
		if end != nil {
			select {
			case m = <-cl.replies:
			default:
				return Msg{}, end
			}
		}
		if m.NoResponders {
			return Msg{}, fmt.Errorf("%w on %q", ErrNoResponders, cl.subject)
		}
		if cl.accepts(m) {
			if end != nil && !errors.Is(end, errQuietPeriod) {
				cl.fail(end)
			}
			return m, nil
		}
		b.ignoredReplies.Add(1)
		b.log.Debug().Str("request", cl.subject).Bytes("reply", m.Data[:min(len(m.Data), 100)]).
			Msg("ignored a reply that the request does not accept")
	}
}

// accepts reports whether a reply is an answer.
func (cl *request) accepts(m Msg) bool {
	return !slices.ContainsFunc(cl.accept, func(is func(Msg) bool) bool { return !is(m) })
}

// fail ends the call after the replies it has; the first reason stands.
func (cl *request) fail(err error) {
	select {
	case cl.failed <- err:
	default:
	}
}

func (cs *requests) add(subject string, room int, accept []func(Msg) bool) *request {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.next++
	cl := &request{
		subject: subject,
		token:   strconv.FormatUint(cs.next, 36),
		accept:  accept,
		replies: make(chan Msg, room),
		failed:  make(chan error, 1),
	}
	if cs.open == nil {
		cs.open = make(map[string]*request)
	}
	cs.open[cl.token] = cl
	return cl
}

func (cs *requests) remove(cl *request) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, cl.token)
}

// deliver runs on the pump. It drops replies to calls that have ended.
func (cs *requests) deliver(m Msg) {
	cs.mu.Lock()
	cl := cs.open[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]]
	cs.mu.Unlock()
	if cl == nil {
		return
	}
	select {
	case cl.replies <- m:
	default:
		cl.fail(fmt.Errorf("%w: more than %d replies to %q wait", ErrOverflow, cap(cl.replies), cl.subject))
	}
}

// deny fails the requests whose publish the server refused.
func (cs *requests) deny(denied *PermissionError) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, cl := range cs.open {
		if cl.subject == denied.Subject {
			cl.fail(denied)
		}
	}
}
