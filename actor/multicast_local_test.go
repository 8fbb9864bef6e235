package actor_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// choir is actors of one proc with a common message.
type choir struct {
	sender subjects.Sender // zero: this process
	p      *actor.Proc
	name   string
	to     []actor.LocalRecipient
	sung   chan struct{} // one for each that has begun a tutti
}

type singer struct{ together *sync.WaitGroup }

// numbered is a message without memory of its own.
type numbered struct {
	N    int
	Text string
}

var (
	singerType = actor.NewType[*singer, actor.None]("singer")
	scale      = actor.NewEndpoint[*singer, []int, int]("scale")
	chord      = actor.NewEndpoint[*singer, numbered, string]("chord")
	tutti      = actor.NewEndpoint[*singer, actor.None, int]("tutti")
	solo       = actor.NewEndpoint[*singer, []byte, string]("solo")
	whoSings   = actor.NewEndpoint[*singer, actor.None, string]("who")
	fermata    = actor.NewEndpoint[*singer, actor.None, int]("fermata")
	refrain    = actor.NewEndpoint[*singer, actor.None, int]("refrain")
)

func newChoir(t *testing.T, n int) *choir {
	t.Helper()
	var together sync.WaitGroup
	together.Add(n)
	sung := make(chan struct{}, n)
	def := singerType.Define(func(*actor.Context, actor.None) (*singer,
		error) {
		return &singer{&together}, nil
	},
		scale.Handle(func(_ *singer, _ *actor.Context, m []int) (int, error) {
			m[0]++
			return m[0], nil
		}),
		chord.Handle(func(_ *singer, _ *actor.Context, m numbered) (string, error) {
			if m.N < 0 {
				return "", errors.New("no such note")
			}
			return m.Text, nil
		}),
		tutti.Handle(func(s *singer, ctx *actor.Context, _ actor.None) (int, error) {
			sung <- struct{}{}
			s.together.Done()
			s.together.Wait()
			return ctx.Point().Rank(), nil
		}),
		solo.Handle(func(_ *singer, ctx *actor.Context, m []byte) (string, error) {
			m[0] += byte(ctx.Point().Rank())
			return string(m), nil
		}),
		whoSings.Handle(func(_ *singer, ctx *actor.Context, _ actor.None) (string, error) {
			deadline, _ := ctx.Deadline()
			return ctx.Sender().String() + " " + time.Until(deadline).Round(time.Hour).String(), nil
		}),
		fermata.Handle(func(_ *singer, ctx *actor.Context, _ actor.None) (int, error) {
			held := actor.Defer[int](ctx)
			held.OnCancel(func() { held.Reply(0, errors.New("cut off")) })
			sung <- struct{}{}
			return 0, nil
		}),
		refrain.Handle(func(_ *singer, ctx *actor.Context, _ actor.None) (int, error) {
			later := actor.Defer[int](ctx)
			go later.Reply(7, nil)
			return 0, nil
		}))
	first := alone(t, def)
	c := &choir{p: first, name: "singer", sung: sung}
	for i := range n {
		p := first
		if i > 0 {
			p = row(t, first, uint32(i), def)
		}
		_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "singer", Name: c.name, Params: actor.None{}})
		require.NoError(t, err)
		c.to = append(c.to, actor.LocalRecipient{Proc: p, View: i})
	}
	return c
}

// sing sends a message to all, and returns each answer.
func (c *choir) sing(t *testing.T, endpoint string, message any) []actor.Answer {
	t.Helper()
	raw, err := wire.Marshal(message)
	require.NoError(t, err)
	return c.singEncoded(t, endpoint, raw)
}

func (c *choir) singEncoded(t *testing.T, endpoint string, raw []byte) []actor.Answer {
	t.Helper()
	seats := c.to[len(c.to)-1].View + 1
	answers := make([]actor.Answer, seats)
	var all sync.WaitGroup
	all.Add(len(c.to))
	c.p.Casts().DeliverAll(&actor.Delivery{
		Actor: c.name, Port: endpoint, From: c.p.ID().Actor("conductor"), Sender: c.sender,
		Raw:      raw,
		Deadline: time.Now().Add(time.Hour),
		Point: func(view int) shape.Point {
			at, err := shape.Of("seat", seats).Point(view)
			require.NoError(t, err)
			return at
		},
		Answer: func(view int, a actor.Answer) {
			answers[view] = a
			all.Done()
		},
	}, c.to)
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("not everybody has answered")
	}
	return answers
}

func TestLocalMulticast_recipientsShareNoMemory(t *testing.T) {
	c := newChoir(t, 40)
	for i, a := range c.sing(t, "scale", []int{1}) {
		require.Equal(t, actor.Answer{Value: 2}, a, "actor %d", i)
	}
	for _, c.sender = range []subjects.Sender{{}, c.p.Sender()} { // from this process and from another
		for i, a := range c.sing(t, "solo", []byte("0bc")) {
			require.Equal(t, actor.Answer{Value: string([]byte{'0' + byte(i), 'b', 'c'})}, a)
		}
	}
	for _, a := range c.sing(t, "chord", numbered{1, "do"}) {
		require.Equal(t, actor.Answer{Value: "do"}, a)
	}
	for _, a := range c.sing(t, "refrain", actor.None{}) {
		require.Equal(t, actor.Answer{Value: 7}, a)
	}
}

func TestLocalMulticast_lastRecipientGetsTheMemoryOfAMessageFromElsewhere(t *testing.T) {
	c := newChoir(t, 2)
	c.to = c.to[1:]
	for _, c.sender = range []subjects.Sender{{}, c.p.Sender()} {
		raw, err := wire.Marshal([]byte("0bc"))
		require.NoError(t, err)
		require.Equal(t, "1bc", c.singEncoded(t, "solo", raw)[1].Value)
		copied := c.sender == subjects.Sender{}
		require.Equal(t, copied, string(raw[1:]) == "0bc", "a message of this process may leave again")
	}
}

func TestLocalMulticast_handlerSeesSenderAndDeadline(t *testing.T) {
	c := newChoir(t, 3)
	for _, a := range c.sing(t, "who", actor.None{}) {
		require.Equal(t, c.p.ID().Actor("conductor").String()+" 1h0m0s", a.Value)
	}
}

func TestLocalMulticast_cancelReachesDeferredAnswers(t *testing.T) {
	const n = 20
	c := newChoir(t, n)
	raw, err := wire.Marshal(actor.None{})
	require.NoError(t, err)
	answers := make(chan actor.Answer, n)
	reply := c.p.ID().Actor("conductor").Port("_0reply").String()
	c.p.Casts().DeliverAll(&actor.Delivery{
		Actor: c.name, Port: "fermata", From: c.p.ID().Actor("conductor"), Raw: raw, Reply: reply,
		Answer: func(_ int, a actor.Answer) { answers <- a },
	}, c.to)
	for range n {
		testkit.Next(t, c.sung)
	}
	require.Empty(t, answers)
	c.p.Casts().CancelRequest(c.p.ID(), reply)
	for range n {
		require.ErrorContains(t, testkit.Next(t, answers).Err, "cut off")
	}
}

// Few goroutines run the actors, until they find that these wait.
func TestLocalMulticast_handlersThatAwaitEachOtherAllRun(t *testing.T) {
	c := newChoir(t, 300)
	for i, a := range c.sing(t, "tutti", actor.None{}) {
		require.Equal(t, actor.Answer{Value: i}, a)
	}
}

func TestLocalMulticast_unreachedRecipientsReportWhy(t *testing.T) {
	c := newChoir(t, 3)
	require.ErrorIs(t, c.sing(t, "nothing", actor.None{})[2].Err, actor.ErrNoEndpoint)
	require.ErrorIs(t, c.sing(t, "chord", "text")[1].Err, actor.ErrBadMessage)
	require.ErrorContains(t, c.sing(t, "chord", numbered{N: -1})[0].Err, "no such note")
	c.name = "nobody"
	require.ErrorIs(t, c.sing(t, "chord", numbered{})[0].Err, actor.ErrNoActor)
}

func TestLocalMulticast_killedActorAnswersForItsMailbox(t *testing.T) {
	c := newChoir(t, 2)
	var held [2]actor.Answer
	answered := make(chan int, 2)
	first := c.to[:1]
	for i, port := range []string{"tutti", "refrain"} { // the other one does not come to sing
		raw, err := wire.Marshal(actor.None{})
		require.NoError(t, err)
		c.p.Casts().DeliverAll(&actor.Delivery{Actor: c.name, Port: port, From: c.p.ID().Actor("conductor"),
			Raw: raw,
			Answer: func(_ int, a actor.Answer) {
				held[i] = a
				answered <- i
			}}, first)
	}
	testkit.Next(t, c.sung)
	c.p.KillActor(c.name, "it hangs")
	require.Equal(t, 1, testkit.Next(t, answered))
	require.ErrorIs(t, held[1].Err, actor.ErrFailed)
	c.to = c.to[1:]
	c.p.Casts().DeliverAll(&actor.Delivery{Actor: c.name, Port: "tutti", Raw: []byte{0xa0},
		Point: func(int) shape.Point { return shape.Point{} }}, c.to)
	require.Equal(t, 0, testkit.Next(t, answered), "now both sing")
}
