package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/signin"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// A thief hands out the credentials of its proc.
type thief struct{}

var (
	thiefType = actor.NewType[thief, actor.None]("thief")
	steal     = actor.NewEndpoint[thief, actor.None, agent.BusSettings]("steal")
)

func thiefDef() actor.Def {
	return thiefType.Define(func(*actor.Context, actor.None) (thief, error) { return thief{}, nil },
		steal.Handle(func(_ thief, ctx *actor.Context, _ actor.None) (agent.BusSettings, error) {
			return proc.BusSettingsOf(ctx.Proc()), nil
		}))
}

// robbed is a mesh of two procs, and the credentials of its rank 0.
type robbed struct {
	mesh   agent.Mesh
	host   actor.Ref[agent.Agent]
	asker  *actor.Proc
	pid    int // of rank 0
	stolen agent.BusSettings
}

func (s site) rob(t *testing.T, d *daemon) *robbed {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	r := &robbed{mesh: keptMesh(t, d), asker: s.asker(t)}
	r.mesh.Keep, r.mesh.Command = false, agent.Command{Path: self}
	r.host = agent.Of(r.mesh.Hosts[0].Proc()).Via(r.asker)
	_, err = agent.Create.Call(testkit.Soon(t), r.host, agent.CreateRequest{Procs: &r.mesh, Wait: true})
	require.NoError(t, err)
	states, err := agent.Get.Call(testkit.Soon(t), r.host, agent.GetRequest{ID: r.mesh.ID.String()})
	require.NoError(t, err)
	r.pid = states[0].Proc.PID
	spec := agent.ActorSpec{Name: "thief", Type: thiefType.Name(), Params: []byte{0xf6}, Owner: r.mesh.Owner}
	_, err = agent.Create.Call(testkit.Soon(t), agent.Of(r.mesh.ProcID(0, 0)).Via(r.asker),
		agent.CreateRequest{Actors: &spec, Wait: true})
	require.NoError(t, err)
	at := actor.RefOf[thief](r.mesh.ProcID(0, 0).Actor("thief")).Via(r.asker)
	r.stolen, err = steal.Call(testkit.Soon(t), at, actor.None{})
	require.NoError(t, err)
	return r
}

// use connects with the stolen credentials.
func (r *robbed) use(t *testing.T) (*bus.Bus, error) {
	t.Helper()
	b, err := bus.Open(testkit.Soon(t), bus.Options{
		URL: r.stolen.URL, Token: r.stolen.Token, InboxPrefix: r.stolen.InboxPrefix,
		ConnectTimeout: testkit.Patience,
	})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
	}
	return b, err
}

func TestHostd_hostileProcSpeaksOnlyInItsOwnName_HOST19(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--label", "a")
	r := s.rob(t, d)
	require.True(t, ticket.Is(r.stolen.Token))
	hostile, err := r.use(t)
	require.NoError(t, err)
	refused := make(chan string, 64)
	defer hostile.Watch(func(st bus.State) {
		if st.Kind == bus.Denied {
			refused <- st.Err.(*bus.PermissionError).Subject
		}
	})()
	space, host := subjects.Space{}, r.mesh.Hosts[0]
	own := subjects.NewSender(subjects.Proc.Principal("a"), r.mesh.ProcID(0, 0).Process())
	peer := r.mesh.ProcID(1, 0)
	asHost := subjects.NewSender(subjects.Host.Principal("a"), host.Proc().Process())
	for _, subject := range []string{
		space.HostEvent(peer, asHost), space.HostEvent(peer, own), space.Heartbeat("host", asHost),
		space.Heartbeat("gone", own), space.Heartbeat(agent.KindTicketEnd, own),
		space.HostWrite(host, "stop-all", own), space.HostWrite(host, "drain", asHost),
		space.Port(peer.Actor(agent.Name).Port("stop"), asHost), space.Frame(peer.Process(), asHost),
		space.Control(peer.Process(), subjects.NewSender(subjects.Proc.Principal("a"), peer.Process())),
		space.Event("proc", peer.Scope(), asHost), space.Log(peer, "stdout", own), "$JS.API.INFO",
	} {
		require.NoError(t, hostile.Control().Publish(subject, []byte("{}")))
		require.Equal(t, subject, testkit.Next(t, refused))
	}
	for _, filter := range []string{">", space.String() + ".>", "_INBOX.>", "_INBOX.*.*", space.PortsOf(peer),
		space.FramesOf(peer.Process()), space.HostWrites(host, ""), space.Logs(r.mesh.ID), space.Gateways(),
		"$SYS.>", "$SRV.PING.castnet-system"} {
		_, err := hostile.Control().Subscribe(filter, func(bus.Msg) {})
		var denied *bus.PermissionError
		require.ErrorAs(t, err, &denied, filter)
	}
	o, err := agent.Wait.Call(testkit.Soon(t), r.host,
		agent.WaitRequest{ID: r.mesh.ID.String(), Until: agent.Running})
	require.NoError(t, err)
	require.Equal(t, agent.Overlay{{First: 0, Count: 2, Status: agent.Status{Phase: agent.Running}}}, o)
	_, err = agent.Get.Call(testkit.Soon(t), agent.Of(peer).Via(r.asker), agent.GetRequest{})
	require.NoError(t, err, "nothing is marked down")
}

func TestHostd_actorsPublishToSubjectsOfPrograms_HOST19(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--label", "a")
	m := keptMesh(t, d)
	m.Keep = false
	p := s.asker(t)
	_, err := agent.Create.Call(testkit.Soon(t), agent.Of(m.Hosts[0].Proc()).Via(p),
		agent.CreateRequest{Procs: &m, Wait: true})
	require.NoError(t, err)
	served, err := p.Bus().Data().Subscribe("work.1", func(r bus.Msg) {
		_ = p.Bus().Data().Publish(r.Reply, []byte("42"))
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, served.Unsubscribe()) }()
	params, err := wire.Marshal(map[string]string{"subject": "work.{rank}"})
	require.NoError(t, err)
	spec := agent.ActorSpec{Name: "works", Type: "plain", Params: params, Owner: m.Owner}
	_, err = agent.Create.Call(testkit.Soon(t), agent.Of(m.ProcID(1, 0)).Via(p),
		agent.CreateRequest{Actors: &spec, Wait: true})
	require.NoError(t, err)
	got, err := actor.NewEndpoint[any, any, any]("request").Call(testkit.Soon(t),
		actor.RefOf[any](m.ProcID(1, 0).Actor("works")).Via(p), 1)
	require.NoError(t, err)
	require.EqualValues(t, 42, got)
}

func TestHostd_ticketDiesWithItsProc_HOSTD13(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--label", "a", "--listen", "127.0.0.1:0")
	for name, host := range map[string]*daemon{
		"on the server's host": d,
		"on a host that joined": s.start(t, "--label", "b", "--nats", d.ready.Bus, "--token", s.readLocal(t).Token,
			"--allow", "/"),
	} {
		r := s.rob(t, host)
		leaked, err := r.use(t)
		require.NoError(t, err, name)
		known := make(chan time.Time, 64)
		stop, err := r.asker.Bus().Control().Subscribe(subjects.Space{}.HostEvents(r.mesh.ID), func(bus.Msg) {
			known <- time.Now()
		})
		require.NoError(t, err)
		cut := make(chan time.Time, 64)
		defer leaked.Watch(func(s bus.State) {
			if s.Kind == bus.Disconnected {
				cut <- time.Now()
			}
		})()
		require.NoError(t, syscall.Kill(r.pid, syscall.SIGKILL))
		end := testkit.Next(t, known)
		t.Logf("%s: the first connection of the ended proc's ticket was cut %s after the event of its end",
			name, testkit.Next(t, cut).Sub(end))
		require.NoError(t, stop.Unsubscribe())
		testkit.Next(t, leaked.Done())
		_, err = r.use(t)
		require.Error(t, err, name)
	}
}

func TestHostd_refusesARevokedKeyAlsoAfterARestart_HOSTD13(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	state := t.TempDir()
	d := s.start(t, "--label", "a", "--listen", "127.0.0.1:0", "--state-dir", state)
	local := s.readLocal(t)
	key := ticket.NewMaster(local.Token).Issue(subjects.Space{}, subjects.Observer.Principal("bob"), time.Time{})
	mesh, err := subjects.NewMeshID("bob")
	require.NoError(t, err)
	signIn := func(key ticket.Key) (*bus.Bus, error) {
		o, err := signin.As(bus.Options{URL: local.URL, Token: key.Text(), ConnectTimeout: testkit.Patience}, subjects.Space{},
			subjects.User{Principal: key.Principal(), Process: subjects.ProcID{Mesh: mesh}.Process()})
		require.NoError(t, err)
		b, err := bus.Open(testkit.Soon(t), o)
		if err == nil {
			t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
		}
		return b, err
	}
	revoked, err := signIn(key)
	require.NoError(t, err)
	operator, err := bus.Open(testkit.Soon(t), bus.Options{URL: local.URL, Token: local.Token,
		ConnectTimeout: testkit.Patience})
	require.NoError(t, err)
	answer, err := operator.Control().Request(testkit.Soon(t), bus.Msg{
		Subject: subjects.Space{}.Heartbeat(agent.KindRevoke, subjects.Anon()), Data: []byte(key.Serial())}, actor.IsAnswer)
	require.NoError(t, err)
	require.Empty(t, string(answer.Data))
	testkit.Next(t, revoked.Done())
	_, err = signIn(key)
	require.Error(t, err)
	require.NoError(t, operator.Close(context.Background()))

	d.Stop(t)
	s.start(t, "--label", "a", "--listen", "127.0.0.1:0", "--state-dir", state)
	local = s.readLocal(t)
	_, err = signIn(key)
	require.Error(t, err)
	_, err = signIn(ticket.NewMaster(local.Token).Issue(subjects.Space{}, key.Principal(), time.Time{}))
	require.NoError(t, err, "another key of the same person")
}

func TestHostd_joinsWithTheKeyOfItsHost_HOSTD13(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--label", "a", "--listen", "127.0.0.1:0")
	master := ticket.NewMaster(s.readLocal(t).Token)
	file := func(p subjects.Principal) string {
		path := filepath.Join(t.TempDir(), "key")
		key := master.Issue(subjects.Space{}, p, time.Now().Add(time.Hour))
		require.NoError(t, os.WriteFile(path, []byte(key.Text()+"\n"), 0o600))
		return path
	}
	join := func(label, file string) []string {
		return []string{"--label", label, "--nats", d.ready.Bus, "--token-file", file, "--allow", "/"}
	}
	b := s.start(t, join("b", file(subjects.Host.Principal("b")))...)
	r := s.rob(t, b)
	require.True(t, ticket.Is(r.stolen.Token), "its procs have tickets under its key")
	stolen, err := master.Verify(r.stolen.Token, time.Now())
	require.NoError(t, err)
	require.Equal(t, subjects.Proc.Principal("b"), stolen.User.Principal)
	require.NotContains(t, d.Said(), "Violation", "the server refused nothing to host b")
	for _, args := range [][]string{
		join("c", file(subjects.Host.Principal("b"))), join("b", file(subjects.Operator.Principal("b"))),
		append(join("b", file(subjects.Host.Principal("b"))), "--system"),
	} {
		_, why := s.requireFailedStart(t, args...)
		require.Contains(t, why, "cannot speak as ")
	}
}
