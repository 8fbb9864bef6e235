package actor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// Vault has an audited endpoint.
type Vault struct{}

// withdrawal is an act on a vault.
type withdrawal struct{ Object, How string }

func (w withdrawal) Act() (object string, routine bool) { return w.Object, w.How == "routine" }

var (
	vault    = actor.NewType[*Vault, actor.None]("vault")
	withdraw = actor.NewEndpoint[*Vault, withdrawal, int]("withdraw")
)

func (v *Vault) withdraw(ctx *actor.Context, w withdrawal) (int, error) {
	switch w.How {
	case "refuse":
		return 0, errors.New("no key")
	case "later", "refuse later":
		answer := actor.Defer[int](ctx)
		ctx.Go(func(context.Context) func(*actor.Context) {
			return func(*actor.Context) {
				if w.How == "later" {
					answer.Reply(1, nil)
				} else {
					answer.Reply(0, errors.New("no gold"))
				}
			}
		})
	case "at once":
		actor.Defer[int](ctx).Reply(1, nil)
	}
	return 0, nil
}

func vaults() actor.Def {
	return vault.Define(func(*actor.Context, actor.None) (*Vault, error) { return &Vault{}, nil },
		withdraw.Handle((*Vault).withdraw).Urgent().Audited())
}

func TestAudit_showsTheSenderAndTheAnswerOfEachAct_ACT16(t *testing.T) {
	srv := bustest.Server(t)
	p, other, f := start(t, srv, "bank", vaults()), start(t, srv, "thief", vaults()), newForger(t, srv)
	ref, err := actor.Spawn(t.Context(), p, vault, "vault", actor.None{})
	require.NoError(t, err)
	seen := make(chan actor.Event, 100)
	_, err = f.Data().Subscribe(p.Space().Events(actor.KindAudit, subjects.MeshID{}), func(m bus.Msg) {
		e, err := actor.DecodeEventFrom(p.Space(), m)
		if err != nil {
			panic(err)
		}
		seen <- e
	})
	require.NoError(t, err)
	require.NoError(t, f.Data().Flush(testkit.Soon(t)))
	operator, err := subjects.ParseSender("o-root.x")
	require.NoError(t, err)
	call := func(via *actor.Proc) func(withdrawal) {
		return func(w withdrawal) { _, _ = withdraw.Call(testkit.Soon(t), ref.Via(via), w) }
	}
	urgent := func(w withdrawal) { _, _ = withdraw.CallUrgent(testkit.Soon(t), ref.Via(other), w) }
	plain := func(w withdrawal) {
		_, err := f.Data().Request(testkit.Soon(t), bus.Msg{
			Subject: f.space.Port(ref.ID().Port("withdraw"), operator),
			Data:    []byte(`{"Object":"` + w.Object + `","How":"` + w.How + `"}`),
		})
		require.NoError(t, err)
	}
	for _, from := range []struct {
		what string
		by   subjects.Sender
		ask  func(withdrawal)
	}{
		{"an actor of the proc", senderOf(p.ID()), call(p)},
		{"another process", senderOf(other.ID()), call(other)},
		{"another process, urgently", senderOf(other.ID()), urgent},
		{"a plain client", operator, plain},
	} {
		for how, want := range map[string][]string{
			"": {"granted"}, "refuse": {"refused: no key"}, "later": {"pending", "granted"},
			"refuse later": {"pending", "refused: no gold"}, "at once": {"granted"}, "routine": nil,
		} {
			from.ask(withdrawal{"gold", how})
			for _, answer := range want {
				e := testkit.Next(t, seen)
				got := e.Status
				if e.Reason != "" {
					got += ": " + e.Reason
				}
				require.Equal(t, answer, got, "%s %s", from.what, how)
				require.Equal(t,
					[]any{actor.KindAudit, "audit.withdraw", "gold", from.by.String(), ref.ID().Name, p.ID()},
					[]any{e.Kind, e.Step, e.Object, e.By, e.Actor, e.Proc()}, "%s %s", from.what, how)
			}
		}
	}
	require.NoError(t, f.Data().Flush(testkit.Soon(t)))
	require.Empty(t, seen, "each is recorded once")
}
