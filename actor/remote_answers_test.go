package actor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// waitingCall is an unanswered call of one proc to another, and a stranger with the reply address.
type waitingCall struct {
	a, b  *actor.Proc
	s     *stranger
	book  *pages
	reply string
	asked chan error
	stop  func()
}

func newWaitingCall(t *testing.T) *waitingCall {
	t.Helper()
	srv := bustest.Server(t)
	c := &waitingCall{a: start(t, srv, "left", ledgers()), b: start(t, srv, "right", ledgers()),
		s: newStranger(t, srv), asked: make(chan error, 1)}
	w := newTap(t, srv, c.b)
	ref, book := newLedger(t, c.b, c.a)
	ctx, cancel := context2(t)
	c.book, c.stop = book, cancel
	go func() { c.asked <- second(linger.Call(ctx, ref, 1)) }()
	testkit.Next(t, book.began)
	c.reply = w.question(t).Reply
	return c
}

// requirePending requires that the call has no answer yet.
func (c *waitingCall) requirePending(t *testing.T) {
	t.Helper()
	require.Empty(t, c.asked)
	c.stop()
	require.ErrorIs(t, testkit.Next(t, c.asked), &actor.Error{Code: actor.CodeCanceled})
}

func TestCall_refusesAReplyFromAnotherProc(t *testing.T) {
	for name, kind := range map[string]wire.Kind{"a value": wire.Value, "a failure": wire.Failure} {
		t.Run(name, func(t *testing.T) {
			c := newWaitingCall(t)
			at, err := subjects.ParsePortID(c.reply)
			require.NoError(t, err)
			body, err := wire.Marshal(7)
			if kind == wire.Failure {
				body = actor.EncodeError(actor.ErrStopped)
			}
			require.NoError(t, err)
			c.s.send(t, at, senderOf(c.s.id),
				packet(1, 0, wire.Envelope{Kind: kind, Sender: "x", Body: body}))
			refused := c.s.awaitRefusals(t)
			require.Len(t, refused, 1)
			require.ErrorContains(t, actor.FromWire(refused[0].Why), "unexpected answer from")
			c.requirePending(t)
		})
	}
}

func TestCall_refusesAReplyAddressOfAnotherProc(t *testing.T) {
	c := newWaitingCall(t)
	to := c.b.ID().Actor("nobody").Port("linger")
	e := wire.Envelope{Kind: wire.Message, Sender: "x", Reply: c.reply, Body: []byte("no integer")}
	c.s.send(t, to, senderOf(c.s.id), packet(1, 0, e))
	refused := c.s.awaitRefusals(t)
	require.Len(t, refused, 1)
	require.ErrorContains(t, actor.FromWire(refused[0].Why), "want a port of "+c.s.id.Process().String()+
		" for the answer")
	require.EqualValues(t, 1, c.b.Stats().Malformed)
	c.requirePending(t)
}

func TestCall_brokenLinkFailsOnlyCallsItCarried(t *testing.T) {
	c := newWaitingCall(t)
	c.a.LinkOver(c.b.ID().Process(), 0)
	c.a.LinkOver(c.s.id.Process(), math.MaxUint64)
	require.Empty(t, c.asked, "it was asked after the one, and another than the other")
	c.a.LinkOver(c.b.ID().Process(), math.MaxUint64)
	err := testkit.Next(t, c.asked)
	require.ErrorIs(t, err, actor.ErrLinkBroken)
	require.True(t, asError(t, err).Indeterminate(), "its question was acknowledged")
	c.a.Casts().CancelRequest(c.b.ID(), c.reply) // or its handler would go on
	_ = testkit.Next(t, c.book.ended)
}
