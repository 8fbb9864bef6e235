package actor_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// receipt is a Mailer's handler of dead letters.
type receipt func(*actor.Context, actor.DeadLetter) error

// Mailer is an actor that sends, and receives its dead letters.
type Mailer struct{ receipt receipt }

var (
	mailer = actor.NewType[*Mailer, receipt]("mailer")
	mail   = actor.NewEndpoint[*Mailer, errand, actor.None]("mail")
)

func (m *Mailer) mail(ctx *actor.Context, o errand) (actor.None, error) { return actor.None{}, o(ctx) }

func (m *Mailer) HandleDeadLetter(ctx *actor.Context, r actor.DeadLetter) error {
	return m.receipt(ctx, r)
}

func mailers() actor.Def {
	return mailer.Define(func(_ *actor.Context, r receipt) (*Mailer, error) { return &Mailer{r}, nil },
		mail.Handle((*Mailer).mail))
}

// newMailer spawns a Mailer that keeps its dead letters.
func newMailer(t *testing.T, p *actor.Proc) (actor.Ref[*Mailer], <-chan actor.DeadLetter) {
	t.Helper()
	back := make(chan actor.DeadLetter, 1000)
	ref, err := actor.Spawn(t.Context(), p, mailer, "mailer",
		func(_ *actor.Context, r actor.DeadLetter) error { back <- r; return nil })
	require.NoError(t, err)
	return ref, back
}

// sendMany makes a Mailer send n messages, and returns the number refused with an error.
func sendMany(t *testing.T, from actor.Ref[*Mailer], n int, to actor.Ref[*Box], refusal error) (refused int) {
	t.Helper()
	_, err := mail.Call(t.Context(), from, func(ctx *actor.Context) error {
		for i := range n {
			if err := add.Send(ctx, to, int64(i)); err != nil {
				if !errors.Is(err, refusal) {
					return err
				}
				refused++
			}
		}
		return nil
	})
	require.NoError(t, err)
	return refused
}

// requireDeadLetters receives n dead letters, and requires that there are no more.
func requireDeadLetters(t *testing.T, n int, from actor.Ref[*Mailer], back <-chan actor.DeadLetter) (
	all []actor.DeadLetter) {
	t.Helper()
	for range n {
		all = append(all, testkit.Next(t, back))
	}
	_, err := mail.Call(t.Context(), from, func(*actor.Context) error { return nil })
	require.NoError(t, err, "it lives")
	require.Empty(t, back)
	return all
}

// mailerProcs are two procs with mailers.
func mailerProcs(t *testing.T) (a, b *actor.Proc) {
	t.Helper()
	srv := bustest.Server(t)
	return start(t, srv, "left", mailers()), start(t, srv, "right", mailers())
}

func TestDeadLetters_killedActorReturnsItsMail(t *testing.T) {
	p := alone(t, mailers())
	ref := spawn(t, p)
	from, back := newMailer(t, p)
	other, none := newMailer(t, p)
	release := blocked(t, ref)
	defer release()
	require.Zero(t, sendMany(t, from, 100, ref, nil))
	require.Zero(t, sendMany(t, other, 1, ref, nil))
	p.KillActor(ref.ID().Name, "now")
	for i, r := range requireDeadLetters(t, 100, from, back) {
		require.Equal(t, int64(i), r.Message, "in the order they were sent")
		require.Equal(t, "int64", r.Type)
		require.Equal(t, from.ID(), r.From)
		require.False(t, r.At.IsZero())
		require.EqualError(t, r.Reason, ref.ID().String()+": add: the actor failed: killed: now")
		require.True(t, r.Reason.Undeliverable())
	}
	requireDeadLetters(t, 1, other, none)
	require.EqualValues(t, 101, p.Stats().Bounced)
	require.Equal(t, 100, sendMany(t, from, 100, ref, actor.ErrFailed), "from now on Send itself fails")
	requireDeadLetters(t, 0, from, back)
}

func TestDeadLetters_stoppedRemoteActorReturnsEverySend(t *testing.T) {
	a, b := mailerProcs(t)
	ref := spawn(t, b)
	testkit.Next(t, b.StopActor(ref.ID().Name, "enough"))
	from, back := newMailer(t, a)
	require.Zero(t, sendMany(t, from, 100, ref, nil))
	for _, r := range requireDeadLetters(t, 100, from, back) {
		require.Nil(t, r.Message, "it left the process")
		require.Equal(t, "int64", r.Type)
		require.Equal(t, from.ID(), r.From)
		require.Equal(t, []string{ref.ID().String(), "add"}, []string{r.Reason.Actor, r.Reason.Endpoint})
		require.EqualError(t, r.Reason, ref.ID().String()+": add: the actor stopped: enough")
	}
	require.EqualValues(t, 100, a.Stats().Bounced)
	require.EqualValues(t, 100, b.Stats().Undeliverable)
}

func TestDeadLetters_unknownProcReturnsEverySend(t *testing.T) {
	t.Parallel()
	a := alone(t, mailers())
	nobody, err := subjects.NewHostID("nobody")
	require.NoError(t, err)
	id := nobody.Proc().Actor("x")
	from, back := newMailer(t, a)
	refused := sendMany(t, from, 100, actor.RefOf[*Box](id), actor.ErrNoProc)
	for _, r := range requireDeadLetters(t, 100-refused, from, back) {
		require.Equal(t, "int64", r.Type)
		require.Equal(t, from.ID(), r.From)
		require.Equal(t, []string{id.String(), "add"}, []string{r.Reason.Actor, r.Reason.Endpoint})
		require.EqualError(t, r.Reason, id.String()+": add: no responders: proc "+id.Proc.String()+
			" does not exist or is gone")
	}
	require.Zero(t, refused)
}

func TestSend_toADeadProcFailsAtOnce_DEL5(t *testing.T) {
	a, b := mailerProcs(t)
	ref := spawn(t, b)
	from, back := newMailer(t, a)
	a.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: b.ID().Mesh.String()})
	require.Equal(t, 100, sendMany(t, from, 100, ref, actor.ErrProcDead))
	requireDeadLetters(t, 0, from, back)
	require.Zero(t, a.Stats().Bounced)
}

func TestDeadLetters_listIsBoundedAndStatsCountAll(t *testing.T) {
	a, b := mailerProcs(t)
	from, back := newMailer(t, a)
	require.Empty(t, a.DeadLetters())
	for i := range 200 {
		to := actor.RefOf[*Box](b.ID().Actor(fmt.Sprint("x", i)))
		if i%2 == 1 {
			require.Zero(t, sendMany(t, from, 1, to, nil))
			requireDeadLetters(t, 1, from, back)
		} else {
			require.NoError(t, add.Send(t.Context(), to.Via(a), 1))
			testkit.Until(t, "it came back", func() bool { return a.Stats().Bounced == uint64(i+1) })
		}
	}
	dead := a.DeadLetters()
	require.Len(t, dead, 128)
	for i, r := range dead {
		sender := from.ID()
		if i%2 == 0 {
			sender = a.ID().Actor("client")
		}
		require.Equal(t, b.ID().Actor(fmt.Sprint("x", 72+i)).String(), r.Reason.Actor, "oldest first")
		require.ErrorIs(t, r.Reason, actor.ErrNoActor)
		require.Equal(t, sender, r.From)
		require.Nil(t, r.Message)
	}
}

func TestDeadLetters_holdNoBodies(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	release := blocked(t, ref)
	defer release()
	require.NoError(t, echo.Send(t.Context(), ref, "who knows how large"))
	p.KillActor(ref.ID().Name, "now")
	require.Len(t, p.DeadLetters(), 1)
	require.Nil(t, p.DeadLetters()[0].Message)
	require.Equal(t, "string", p.DeadLetters()[0].Type)
}

func TestDeadLetters_doNotFailTheirSenderByDefault(t *testing.T) {
	a, b := two(t)
	ref := spawn(t, a)
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		return 0, add.Send(ctx, actor.RefOf[*Box](b.ID().Actor("nobody")), 1)
	})
	require.NoError(t, err)
	testkit.Until(t, "it came back", func() bool { return a.Stats().Bounced == 1 })
	awaitIdle(t, ref)
	require.Equal(t, ref.ID(), a.DeadLetters()[0].From)
}

func TestDeadLetters_handlerErrorOrPanicFailsTheActor(t *testing.T) {
	for want, r := range map[string]receipt{
		"undeliverable message: that matters": func(*actor.Context, actor.DeadLetter) error {
			return errors.New("that matters")
		},
		"panicked: that matters": func(*actor.Context, actor.DeadLetter) error {
			panic("that matters")
		},
	} {
		a, b := mailerProcs(t)
		es := record(a)
		from, err := actor.Spawn(t.Context(), a, mailer, "mailer", r)
		require.NoError(t, err)
		sendMany(t, from, 1, actor.RefOf[*Box](b.ID().Actor("nobody")), nil)
		require.Equal(t, want, place.ReplaceAllString(es.end(t, from.ID().Name).Reason, ""))
	}
}

func TestDeadLetters_arriveBeforeQueuedMail_ACT1(t *testing.T) {
	p := alone(t, mailers())
	ref := spawn(t, p)
	var order []string
	from, err := actor.Spawn(t.Context(), p, mailer, "mailer", func(*actor.Context, actor.DeadLetter) error {
		order = append(order, "returned")
		return nil
	})
	require.NoError(t, err)
	release := blocked(t, ref)
	defer release()
	_, err = mail.Call(t.Context(), from, func(ctx *actor.Context) error {
		for range 10 {
			if err := mail.Send(ctx, actor.Self[*Mailer](ctx),
				func(*actor.Context) error { order = append(order, "mail"); return nil }); err != nil {
				return err
			}
		}
		if err := add.Send(ctx, ref, 1); err != nil {
			return err
		}
		p.KillActor(ref.ID().Name, "now")
		return nil
	})
	require.NoError(t, err)
	_, err = mail.Call(t.Context(), from, func(*actor.Context) error { return nil })
	require.NoError(t, err)
	require.Len(t, order, 11)
	require.Equal(t, "returned", order[0])
}

func TestDeadLetters_ofAnEndedSenderAreListed(t *testing.T) {
	p := alone(t, mailers())
	ref := spawn(t, p)
	from, back := newMailer(t, p)
	release := blocked(t, ref)
	defer release()
	sendMany(t, from, 1, ref, nil)
	testkit.Next(t, p.StopActor(from.ID().Name, "enough"))
	p.KillActor(ref.ID().Name, "now")
	require.Equal(t, from.ID(), p.DeadLetters()[0].From)
	require.Empty(t, back)
}
