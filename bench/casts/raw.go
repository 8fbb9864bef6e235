package casts

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/server"
)

// Raw is who casts with plain NATS.
type Raw struct {
	share Share
	nc    *nats.Conn
	free  chan *inbox
}

// inbox is where the replies to one cast come to.
type inbox struct {
	subject string
	replies chan *nats.Msg
}

// NewRaw connects, to cast to fanouts or to naive ranks.
func NewRaw(_ context.Context, srv *server.Server, s Share) (*Raw, error) {
	nc, err := srv.Connect()
	if err != nil {
		return nil, err
	}
	c := &Raw{share: s, nc: nc, free: make(chan *inbox, MaxInFlight)}
	for range MaxInFlight {
		in := &inbox{nats.NewInbox(), make(chan *nats.Msg, s.Ranks)}
		_, err = c.nc.ChanSubscribe(in.subject, in.replies)
		if err != nil {
			break
		}
		c.free <- in
	}
	if err == nil {
		err = c.nc.FlushTimeout(local.Patience)
	}
	if err != nil {
		c.nc.Close()
		return nil, err
	}
	return c, nil
}

// Close disconnects.
func (c *Raw) Close(context.Context) error {
	c.nc.Close()
	return nil
}

// Reduce sums up what the processes have summed up.
func (c *Raw) Reduce(ctx context.Context, m []byte) error {
	sum := int64(0)
	err := c.cast(ctx, reduceSubject, m, c.share.processes(), func(reply []byte) error { return add(&sum, reply) })
	if err != nil {
		return err
	}
	return checkSum(sum, c.share.Ranks, len(m))
}

// Gather has every answer by its rank.
func (c *Raw) Gather(ctx context.Context, m []byte) error {
	all := make([][]byte, c.share.Ranks)
	replies := c.share.processes() * ((c.share.Each-1)/answersIn(len(m)) + 1)
	err := c.cast(ctx, gatherSubject, m, replies, func(reply []byte) error { return place(all, reply, len(m)) })
	if err != nil {
		return err
	}
	return checkAnswers(all, len(m), every)
}

// Post waits until every process has confirmed that its ranks have it.
func (c *Raw) Post(ctx context.Context, m []byte) error {
	return c.cast(ctx, postSubject, m, c.share.processes(), func([]byte) error { return nil })
}

// ReduceNaive asks every rank by itself, and sums up their answers.
func (c *Raw) ReduceNaive(ctx context.Context, m []byte) error {
	in := <-c.free
	defer func() { c.free <- in }()
	for n := range c.share.Ranks {
		if err := c.nc.PublishRequest(rankSubject+strconv.Itoa(n), in.subject, m); err != nil {
			return err
		}
	}
	sum := int64(0)
	if err := in.await(ctx, c.share.Ranks, func(reply []byte) error { return add(&sum, reply) }); err != nil {
		return err
	}
	return checkSum(sum, c.share.Ranks, len(m))
}

// cast publishes, in parts if the message is too large for one, and takes the replies of the
// processes. Casts in parts must not overlap.
func (c *Raw) cast(ctx context.Context, subject string, m []byte, replies int,
	take func(reply []byte) error) error {
	in := <-c.free
	defer func() { c.free <- in }()
	for ; len(m) > maxPart; m = m[maxPart:] {
		if err := c.nc.Publish(partSubject, m[:maxPart]); err != nil {
			return err
		}
	}
	if err := c.nc.PublishRequest(subject, in.subject, m); err != nil {
		return err
	}
	return in.await(ctx, replies, take)
}

func (in *inbox) await(ctx context.Context, n int, take func(reply []byte) error) error {
	for i := range n {
		select {
		case reply := <-in.replies:
			if err := take(reply.Data); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d replies: %w", i, n, context.Cause(ctx))
		}
	}
	return nil
}

// add adds the number that a reply holds.
func add(sum *int64, reply []byte) error {
	const numberSize = 8
	if len(reply) != numberSize {
		return fmt.Errorf("a reply of %d bytes, want a number of %d", len(reply), numberSize)
	}
	*sum += int64(binary.LittleEndian.Uint64(reply))
	return nil
}

// place puts the answers of a reply, of a size each, where their ranks belong.
func place(all [][]byte, reply []byte, size int) error {
	if len(reply)%size != 0 {
		return fmt.Errorf("a reply of %d bytes, want answers of %d", len(reply), size)
	}
	for ; len(reply) > 0; reply = reply[size:] {
		n := rankIn(reply)
		if n >= len(all) {
			return fmt.Errorf("an answer of rank %d of %d", n, len(all))
		}
		all[n] = reply[:size]
	}
	return nil
}
