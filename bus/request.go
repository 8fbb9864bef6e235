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
	// requestTimeout bounds a request whose context has no deadline.
	requestTimeout = 30 * time.Second

	// gatherRoom is how many replies of one RequestMany may wait to be taken.
	gatherRoom = 1024

	// strays is the same of a Request: others may reply before the one that is asked.
	strays = 64
)

// errQuiet ends a RequestMany: no reply came for as long as was asked.
var errQuiet = errors.New("bus: quiet")

// calls are the requests of one lane that wait for replies. They share one
// wildcard subscription, so replies too keep BUS-1.
type calls struct {
	setup  sync.Mutex // held while the subscription is made
	prefix string     // of reply subjects, with its dot; "" until it is made

	mu   sync.Mutex
	next uint64
	open map[string]*call
}

// call is one request.
type call struct {
	subject string
	token   string
	accept  []func(Msg) bool
	replies chan Msg
	failed  chan error // holds one
}

// Request sends m and returns the first reply that every accept takes; m.Reply is
// set here. It fails with ErrNoResponders or a *PermissionError as soon as the
// server says so, and waits 30 s when ctx has no deadline. On the data lane, which
// hears nothing of what it publishes, a responder on the same lane is not reached.
//
// Streams that record a subject acknowledge requests to it, and anybody may reply:
// a caller that knows what an answer looks like says so in accept (BUS-8).
func (c *Conn) Request(ctx context.Context, m Msg, accept ...func(Msg) bool) (Msg, error) {
	ctx, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	cl, err := c.begin(m, strays, accept)
	if err != nil {
		return Msg{}, err
	}
	defer c.calls.end(cl)
	return c.reply(ctx, cl, nil)
}

// RequestMany sends m when the loop begins and yields each reply that every accept
// takes. The loop ends without an error at ctx's deadline (30 s if it has none),
// when no such reply came for quiet since the last one (0: never), and at once when
// the server says that nobody listens. Another error is yielded last.
func (c *Conn) RequestMany(
	ctx context.Context, m Msg, quiet time.Duration, accept ...func(Msg) bool,
) iter.Seq2[Msg, error] {
	return func(yield func(Msg, error) bool) {
		ctx, cancel := bounded(ctx, requestTimeout)
		defer cancel()
		cl, err := c.begin(m, gatherRoom, accept)
		if err != nil {
			yield(Msg{}, err)
			return
		}
		defer c.calls.end(cl)
		var pause <-chan time.Time
		for {
			reply, err := c.reply(ctx, cl, pause)
			switch {
			case errors.Is(err, ErrNoResponders), errors.Is(err, errQuiet), errors.Is(err, context.DeadlineExceeded):
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

// begin registers a call and sends its request.
func (c *Conn) begin(m Msg, room int, accept []func(Msg) bool) (*call, error) {
	prefix, err := c.replyPrefix()
	if err != nil {
		return nil, err
	}
	cl := c.calls.add(m.Subject, room, accept)
	m.Reply = prefix + cl.token
	if err := c.PublishMsg(m); err != nil {
		c.calls.end(cl)
		return nil, err
	}
	return cl, nil
}

// replyPrefix makes the lane's reply subscription with the first request.
func (c *Conn) replyPrefix() (string, error) {
	c.calls.setup.Lock()
	defer c.calls.setup.Unlock()
	if c.calls.prefix == "" {
		prefix := c.nc.NewInbox() + "."
		if _, err := c.Subscribe(prefix+"*", c.calls.deliver); err != nil {
			return "", fmt.Errorf("bus: listen for replies: %w", err)
		}
		c.calls.prefix = prefix
	}
	return c.calls.prefix, nil
}

// reply waits for the next reply of cl that it accepts. What has already come in
// goes before the end.
func (c *Conn) reply(ctx context.Context, cl *call, pause <-chan time.Time) (Msg, error) {
	var m Msg
	var end error
	for {
		if end == nil {
			select {
			case m = <-cl.replies:
			case end = <-cl.failed:
			case <-pause:
				end = errQuiet
			case <-ctx.Done():
				end = fmt.Errorf("bus: request to %q: %w", cl.subject, ctx.Err())
			case <-c.bus.done:
				end = c.bus.closedErr()
			}
		}
		if end != nil {
			select {
			case m = <-cl.replies:
			default:
				return Msg{}, end
			}
		}
		switch {
		case m.NoResponders:
			return Msg{}, fmt.Errorf("%w on %q", ErrNoResponders, cl.subject)
		case cl.accepts(m):
			if end != nil && !errors.Is(end, errQuiet) {
				cl.fail(end)
			}
			return m, nil
		}
		c.bus.passed.Add(1)
		c.bus.log.Debug().Str("request", cl.subject).Bytes("reply", m.Data[:min(len(m.Data), 100)]).
			Msg("a reply that is no answer was passed over")
	}
}

// accepts reports whether a reply is an answer.
func (cl *call) accepts(m Msg) bool {
	return !slices.ContainsFunc(cl.accept, func(is func(Msg) bool) bool { return !is(m) })
}

// fail ends the call after the replies it has; the first reason stands.
func (cl *call) fail(err error) {
	select {
	case cl.failed <- err:
	default:
	}
}

func (cs *calls) add(subject string, room int, accept []func(Msg) bool) *call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.next++
	cl := &call{
		subject: subject,
		token:   strconv.FormatUint(cs.next, 36),
		accept:  accept,
		replies: make(chan Msg, room),
		failed:  make(chan error, 1),
	}
	if cs.open == nil {
		cs.open = make(map[string]*call)
	}
	cs.open[cl.token] = cl
	return cl
}

func (cs *calls) end(cl *call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, cl.token)
}

// deliver runs on the pump. A late reply, whose call has ended, is nobody's.
func (cs *calls) deliver(m Msg) {
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
func (cs *calls) deny(denied *PermissionError) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, cl := range cs.open {
		if cl.subject == denied.Subject {
			cl.fail(denied)
		}
	}
}
