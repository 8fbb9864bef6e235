package actor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// inRole starts a proc that speaks in a role.
func inRole(t *testing.T, srv *embed.Server, role subjects.Role, defs ...actor.Def) *actor.Proc {
	t.Helper()
	registry, err := actor.NewRegistry(append(defs, boxes())...)
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), actor.Options{
		ID: newHost(t, role.String()).Proc(), Principal: role.Principal("x"), Bus: bustest.Open(t, srv),
		Registry: registry, Coordinator: func(actor.Event) {},
	})
	require.NoError(t, err)
	testkit.Close(t, p.Close)
	return p
}

func TestPermit_comparesEachSenderWithTheRoles_ACT17(t *testing.T) {
	srv := bustest.Server(t)
	permitted := []subjects.Role{subjects.Operator, subjects.System}
	p := inRole(t, srv, subjects.Host,
		vaults().Permit(func(string) []subjects.Role { return permitted }))
	ref, err := actor.Spawn(t.Context(), p, vault, "vault", actor.None{})
	require.NoError(t, err)
	audits := make(chan actor.Event, 100)
	defer p.Observe(func(e actor.Event) {
		if e.Kind == actor.KindAudit {
			audits <- e
		}
	})()
	_, err = withdraw.Call(t.Context(), ref, withdrawal{"own", ""})
	require.NoError(t, err, "the process of the actor has every role")
	require.Equal(t, actor.ActGranted, testkit.Next(t, audits).Status)
	f := newForger(t, srv)
	for _, role := range subjects.AllRoles() {
		via := inRole(t, srv, role)
		plain := func() error {
			m, err := f.Data().Request(testkit.Soon(t), bus.Msg{
				Subject: f.space.Port(ref.ID().Port("withdraw"), via.Sender()), Data: []byte(`{"Object":"gold"}`),
			})
			require.NoError(t, err)
			if code := m.Header.Get(actor.HeaderErrorCode); code != "" {
				require.Equal(t, "403", code)
				return actor.ErrDenied
			}
			return nil
		}
		for how, ask := range map[string]func() error{
			"call": func() error {
				return errOf(withdraw.Call(testkit.Soon(t), ref.Via(via), withdrawal{"gold", ""}))
			},
			"urgent": func() error {
				return errOf(withdraw.CallUrgent(testkit.Soon(t), ref.Via(via), withdrawal{"gold", ""}))
			},
			"plain": plain,
		} {
			err := ask()
			e := testkit.Next(t, audits)
			require.Equal(t, []string{"audit.withdraw", "gold"}, []string{e.Step, e.Object})
			if slices.Contains(permitted, role) {
				require.NoError(t, err, "%s by %s", role, how)
				require.Equal(t, actor.ActGranted, e.Status)
				continue
			}
			require.ErrorIs(t, err, actor.ErrDenied, "%s by %s", role, how)
			require.Equal(t, []any{actor.ActRefused, actor.CodeDenied}, []any{e.Status, e.Code})
			require.True(t, strings.HasPrefix(e.By, role.Principal("x").String()+"."), e.By)
			if how != "plain" {
				require.ErrorContains(t, err, "withdraw: the role "+role.String()+
					" may not: want the role operator or system (castnet auth mint --role operator)")
			}
		}
	}
	require.Empty(t, audits)
}

func errOf[T any](_ T, err error) error { return err }

// Without Permit, an actor is for all roles but observers.
func TestObservers_reachNoActors_ACT17(t *testing.T) {
	srv := bustest.Server(t)
	p := inRole(t, srv, subjects.Program)
	ref := spawn(t, p)
	port := actor.OpenPort[int64](p)
	defer port.Close()
	for _, role := range subjects.AllRoles() {
		via := inRole(t, srv, role, mailers())
		_, err := add.Call(testkit.Soon(t), ref.Via(via), 1)
		to := port.Ref().Via(via)
		sent := to.Send(testkit.Soon(t), 1)
		require.NoError(t, sent)
		if role != subjects.Observer {
			require.NoError(t, err, role)
			got, err := port.Recv(testkit.Soon(t))
			require.NoError(t, err)
			require.EqualValues(t, 1, got)
			continue
		}
		require.ErrorIs(t, err, actor.ErrDenied)
		require.ErrorContains(t, err, "add: the role observer may not: an observer only reads")
		require.True(t, err.(*actor.Error).Undeliverable(), "no handler ran it")
		before := p.Stats().Undeliverable
		from, back := newMailer(t, via)
		sendMany(t, from, 1, ref, nil)
		require.ErrorIs(t, requireDeadLetters(t, 1, from, back)[0].Reason, actor.ErrDenied)
		require.Greater(t, p.Stats().Undeliverable, before, "it is counted")
		require.NoError(t, via.Flush(testkit.Soon(t)))
		info, err := via.Inspect(testkit.Soon(t), ref.ID())
		require.NoError(t, err, "it reads")
		require.Equal(t, actor.Running, info.Status)
	}
	got, err := history.Call(testkit.Soon(t), ref, actor.None{})
	require.NoError(t, err)
	require.Len(t, got, len(subjects.AllRoles())-1)
}

// teller is the sender of a system controller, whose word about procs counts.
func teller() subjects.Sender {
	by, err := subjects.ParseSender("s-s.system-0000000000000_0-0")
	if err != nil {
		panic(err)
	}
	return by
}
