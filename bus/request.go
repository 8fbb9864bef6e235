package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	replies chan Msg
	failed  chan error // holds one
}

// Request sends m and returns the first reply; m.Reply is set here. It fails
// with ErrNoResponders or a *PermissionError as soon as the server says so, and
// waits 30 s when ctx has no deadline. On the data lane, which hears nothing of
// what it publishes, a responder on the same lane is not reached.
func (c *Conn) Request(ctx context.Context, m Msg) (Msg, error) {
	ctx, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	cl, err := c.begin(m, 1)
	if err != nil {
		return Msg{}, err
	}
	defer c.calls.end(cl)
	return c.reply(ctx, cl, nil)
}

// RequestMany sends m when the loop begins and yields each reply. The loop ends
// without an error at ctx's deadline (30 s if it has none), when no reply came
// for quiet since the last one (0: never), and at once when nobody listens.
// Another error is yielded last.
func (c *Conn) RequestMany(ctx context.Context, m Msg, quiet time.Duration) iter.Seq2[Msg, error] {
	return func(yield func(Msg, error) bool) {
		ctx, cancel := bounded(ctx, requestTimeout)
		defer cancel()
		cl, err := c.begin(m, gatherRoom)
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
func (c *Conn) begin(m Msg, room int) (*call, error) {
	prefix, err := c.replyPrefix()
	if err != nil {
		return nil, err
	}
	cl := c.calls.add(m.Subject, room)
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

// reply waits for the next reply of cl.
func (c *Conn) reply(ctx context.Context, cl *call, pause <-chan time.Time) (Msg, error) {
	var err error
	select {
	case m := <-cl.replies:
		return cl.judge(m)
	case err = <-cl.failed:
	case <-pause:
		err = errQuiet
	case <-ctx.Done():
		err = fmt.Errorf("bus: request to %q: %w", cl.subject, ctx.Err())
	case <-c.bus.done:
		err = c.bus.closedErr()
	}
	// What has already come in goes before the end.
	select {
	case m := <-cl.replies:
		if !errors.Is(err, errQuiet) {
			cl.fail(err)
		}
		return cl.judge(m)
	default:
		return Msg{}, err
	}
}

// judge tells a reply from the server's "no responders".
func (cl *call) judge(m Msg) (Msg, error) {
	if m.NoResponders {
		return Msg{}, fmt.Errorf("%w on %q", ErrNoResponders, cl.subject)
	}
	return m, nil
}

// fail ends the call after the replies it has; the first reason stands.
func (cl *call) fail(err error) {
	select {
	case cl.failed <- err:
	default:
	}
}

func (cs *calls) add(subject string, room int) *call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.next++
	cl := &call{
		subject: subject,
		token:   strconv.FormatUint(cs.next, 36),
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
