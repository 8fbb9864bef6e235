package actor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// tellOf publishes a status of a proc in the name of a sender, and returns once p has handled it.
func (f forger) tellOf(t *testing.T, p *actor.Proc, e actor.Event, by subjects.Sender) {
	t.Helper()
	data, err := json.Marshal(e)
	require.NoError(t, err)
	subject := f.space.Event(e.Kind, e.Proc().Scope(), by)
	if by.Role() == subjects.Host {
		subject = f.space.HostEvent(e.Proc(), by)
	}
	require.NoError(t, f.Control().Publish(subject, data))
	require.NoError(t, f.Control().Flush(testkit.Soon(t)))
	seen := make(chan struct{})
	p.Bus().Control().AfterReceived(func() { close(seen) })
	<-seen
}

func TestMembers_believeNoStrangersAboutProcs_ACT18(t *testing.T) {
	srv := bustest.Server(t)
	f := newForger(t, srv)
	victim, owner, host := start(t, srv, "victim"), newHost(t, "owner"), newHost(t, "n1")
	ref := spawn(t, victim)
	id := victim.ID()
	stranger := newHost(t, "stranger").Proc().Process()
	for _, role := range subjects.AllRoles() {
		for _, knows := range []bool{true, false} {
			for _, status := range []string{"failed", "running"} {
				p := start(t, srv, "receiver")
				if knows {
					p.Members().NoteOwner(id.Mesh, owner.Proc().Process())
				}
				_, err := add.Call(testkit.Soon(t), ref.Via(p), 1)
				require.NoError(t, err)
				before := p.Stats().Malformed
				gen := map[string]int{"running": 1}[status]
				e := actor.Event{Kind: actor.KindProc, Status: status, Mesh: id.Mesh.String(), Gen: gen, Host: host.String()}
				f.tellOf(t, p, e, subjects.NewSender(role.Principal("evil"), stranger))
				if role == subjects.System && status == "failed" {
					testkit.Until(t, "it is believed", func() bool { _, down := p.Members().Down(id); return down })
					continue
				}
				testkit.Until(t, "it is counted", func() bool { return p.Stats().Malformed > before })
				require.False(t, p.Members().IsEnded(id), "%s %s", role, status)
				require.Equal(t, id, p.Members().LatestGeneration(id), "%s %s", role, status)
				_, err = add.Call(testkit.Soon(t), ref.Via(p), 1)
				require.NoError(t, err, "%s %s", role, status)
			}
		}
	}
}

func TestMembers_believeHostsAndOwners_ACT18(t *testing.T) {
	srv := bustest.Server(t)
	f := newForger(t, srv)
	host := newHost(t, "n1")
	for name, by := range map[string]func(owner *actor.Proc) subjects.Sender{
		"host": func(*actor.Proc) subjects.Sender {
			return subjects.NewSender(subjects.Host.Principal("n1"), host.Proc().Process())
		},
		"owner": (*actor.Proc).Sender,
	} {
		victim, p, owner := start(t, srv, "victim"), start(t, srv, "receiver"), start(t, srv, "owner")
		p.Members().NoteOwner(victim.ID().Mesh, owner.ID().Process())
		p.Members().NoteHosts(victim.ID().Mesh, 0, []subjects.HostID{host}, 1)
		_, err := add.Call(testkit.Soon(t), spawn(t, victim).Via(p), 1)
		require.NoError(t, err)
		_, err = add.Call(testkit.Soon(t), spawn(t, p).Via(owner), 1)
		require.NoError(t, err)
		f.tellOf(t, p, actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: victim.ID().Mesh.String(),
			Host: host.String()}, by(owner))
		require.True(t, p.Members().IsEnded(victim.ID()), name)
	}
}

// Hosts report each change of the owner, also to the new owner itself.
func TestMembers_anOwnerIgnoresAHostsReportOfTheOwner_ACT18(t *testing.T) {
	srv := bustest.Server(t)
	f := newForger(t, srv)
	host, mesh := newHost(t, "n1"), newHost(t, "mesh").Proc().Mesh
	p, other := start(t, srv, "owner"), newHost(t, "other").Proc()
	p.Members().NoteOwner(mesh, p.ID().Process())
	heard := make(chan actor.Event, 2)
	stop, err := p.Members().ListenProcs(mesh, 1, func(e actor.Event) { heard <- e })
	require.NoError(t, err)
	defer stop()
	for _, owner := range []subjects.ProcID{p.ID(), other} {
		f.tellOf(t, p, actor.Event{Kind: actor.KindProc, Step: actor.StepOwner, Status: "owned",
			Mesh: mesh.String(), Host: host.String(), Object: owner.Actor("mesh").String()},
			subjects.NewSender(subjects.Host.Principal("n1"), host.Proc().Process()))
	}
	require.Zero(t, p.Stats().Malformed)
	require.Empty(t, heard)
}

// A server that lets several processes share a principal lets each write the names of all processes.
func TestMembers_askALivingProcWhoseEndAnotherReports_ACT18(t *testing.T) {
	srv := bustest.Server(t)
	f := newForger(t, srv)
	owner, host := start(t, srv, "owner"), newHost(t, "n1")
	evil := subjects.Proc.Principal("evil")
	liar := newHost(t, "n2")
	for name, by := range map[string]func(victim subjects.ProcID) subjects.Sender{
		"the owner's process": func(subjects.ProcID) subjects.Sender {
			return subjects.NewSender(evil, owner.ID().Process())
		},
		"its own process":      func(v subjects.ProcID) subjects.Sender { return subjects.NewSender(evil, v.Process()) },
		"the reader's process": func(subjects.ProcID) subjects.Sender { return subjects.Sender{} }, // below
		"another host": func(subjects.ProcID) subjects.Sender {
			return subjects.NewSender(subjects.Host.Principal("n2"), liar.Proc().Process())
		},
	} {
		victim, p := start(t, srv, "victim"), start(t, srv, "receiver")
		id := victim.ID()
		p.Members().NoteOwner(id.Mesh, owner.ID().Process())
		sender := by(id)
		if !sender.IsValid() {
			p.Members().NoteOwner(id.Mesh, p.ID().Process())
			sender = subjects.NewSender(evil, p.ID().Process())
		}
		p.Members().NoteHosts(id.Mesh, 0, []subjects.HostID{host}, 1)
		ref := spawn(t, victim)
		_, err := add.Call(testkit.Soon(t), ref.Via(p), 1)
		require.NoError(t, err)
		at := host
		if sender.Role() == subjects.Host {
			at = liar
		}
		before := p.Stats().Malformed
		f.tellOf(t, p, actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: id.Mesh.String(),
			Host: at.String()}, sender)
		testkit.Until(t, "it is counted", func() bool { return p.Stats().Malformed > before })
		require.False(t, p.Members().IsEnded(id), name)
		_, err = add.Call(testkit.Soon(t), ref.Via(p), 1)
		require.NoError(t, err, name)
	}
}

// The links ask the members whether an unknown process is dead, and the members ask the links for
// the sender of an event.
func TestMembers_eventsAndFirstPacketsOfProcessesDoNotBlockEachOther_ACT18(t *testing.T) {
	srv := bustest.Server(t)
	p := start(t, srv, "receiver")
	_, err := add.Call(testkit.Soon(t), spawn(t, start(t, srv, "victim")).Via(p), 1)
	require.NoError(t, err)
	const count, eventOf, frameOf = 5_000, 3, 4
	gone := newHost(t, "gone").Proc()
	mesh := gone.Mesh
	stop, err := p.Members().ListenProcs(mesh, 1, func(actor.Event) {})
	require.NoError(t, err)
	defer stop()
	stopping, err := json.Marshal(actor.Event{Kind: actor.KindProc, Status: "stopping", Mesh: mesh.String()})
	require.NoError(t, err)
	strangers := make([]subjects.Sender, count)
	for i := range strangers {
		strangers[i] = subjects.NewSender(subjects.Program.Principal("bob"), newHost(t, "bob").Proc().Process())
	}
	done := make(chan struct{}, 2)
	go func() {
		for _, by := range strangers {
			p.Receive(eventOf, bus.Msg{Subject: p.Space().Event(actor.KindProc, gone.Scope(), by), Data: stopping})
		}
		done <- struct{}{}
	}()
	go func() {
		probe := wire.AppendHead(nil, wire.Head{Kind: wire.Probe})
		for _, by := range strangers {
			p.Receive(frameOf, bus.Msg{Subject: p.Space().Frame(p.ID().Process(), by), Data: probe})
		}
		done <- struct{}{}
	}()
	testkit.Next(t, done)
	testkit.Next(t, done)
	require.GreaterOrEqual(t, p.Stats().Malformed, uint64(count))
}

// Where the owner of a mesh is not known, its word counts if the proc is gone.
func TestMembers_askAProcThatAnUnknownOwnerDeclaresDead_ACT18(t *testing.T) {
	srv := bustest.Server(t)
	f := newForger(t, srv)
	gone := newHost(t, "gone")
	p := start(t, srv, "receiver")
	heard := make(chan actor.Event, 1)
	stop, err := p.Members().ListenProcs(gone.Proc().Mesh, 1, func(e actor.Event) { heard <- e })
	require.NoError(t, err)
	defer stop()
	began := time.Now()
	f.tellOf(t, p, actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: gone.Proc().Mesh.String()},
		subjects.NewSender(subjects.Program.Principal("bob"), newHost(t, "bob").Proc().Process()))
	require.Equal(t, "failed", testkit.Next(t, heard).Status)
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestDecodeEventFrom_refusesWhatTheSenderCannotKnow_ACT18(t *testing.T) {
	var space subjects.Space
	host, owner, mesh := newHost(t, "n1"), newHost(t, "owner"), newHost(t, "mesh")
	sender := func(r subjects.Role, id subjects.HostID) subjects.Sender {
		return subjects.NewSender(r.Principal(id.Label()), id.Proc().Process())
	}
	known := map[string]string{}
	for _, kind := range []string{
		actor.KindActor, actor.KindAudit, actor.KindHost, actor.KindMesh, actor.KindProc, actor.KindRank,
	} {
		var who []string
		for _, role := range subjects.AllRoles() {
			for _, id := range []subjects.HostID{host, owner, mesh} {
				e := actor.Event{Kind: kind, Status: "failed", Mesh: mesh.String(), Host: host.String()}
				if kind == actor.KindActor || kind == actor.KindAudit {
					e.Actor = "a"
				}
				by := sender(role, id)
				data, err := json.Marshal(e)
				require.NoError(t, err)
				scope := e.Proc().Scope()
				scope.Actor = e.Actor
				if kind == actor.KindMesh || kind == actor.KindRank || kind == actor.KindHost {
					scope = e.Proc().Mesh.Scope()
				}
				subject := space.Event(kind, scope, by)
				if kind == actor.KindProc && role == subjects.Host {
					subject = space.HostEvent(e.Proc(), by)
				}
				if _, err := actor.DecodeEventFrom(space, bus.Msg{Subject: subject, Data: data}); err == nil {
					who = append(who, by.Principal().String())
				}
			}
		}
		known[kind] = strings.Join(who, " ")
	}
	owners := "u-n1 u-owner u-mesh o-n1 o-owner o-mesh "
	others := "p-n1 p-owner p-mesh "
	systems := "s-n1 s-owner s-mesh"
	own := "u-mesh o-mesh w-mesh c-mesh h-mesh p-mesh g-mesh s-mesh"
	require.Equal(t, map[string]string{
		actor.KindActor: own,
		actor.KindAudit: own,
		actor.KindHost:  "h-n1",
		actor.KindMesh:  owners + "h-n1 h-owner h-mesh " + others + systems,
		actor.KindProc:  owners + "w-mesh c-mesh h-n1 h-mesh " + others + "g-mesh " + systems,
		actor.KindRank:  owners + others + systems,
	}, known)
}
