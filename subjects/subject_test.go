package subjects_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/subjects"
)

// build is the inverse of Parse.
func build(s subjects.Space, v subjects.Subject) string {
	switch v.Kind {
	case subjects.KindPort:
		return s.Port(v.Proc.Actor(v.Actor).Port(v.Port), v.Sender)
	case subjects.KindCast:
		return s.Cast(v.Mesh, v.Actor, v.Port, v.Coords, v.Sender)
	case subjects.KindFrame:
		return s.Frame(v.Proc.Process(), v.Sender)
	case subjects.KindControl:
		return s.Control(v.Proc.Process(), v.Sender)
	case subjects.KindHostRead:
		return s.HostRead(v.Host, v.Verb, v.Sender)
	case subjects.KindHostWrite:
		host, _ := subjects.ParseHostID(v.Host)
		return s.HostWrite(host, v.Verb, v.Sender)
	case subjects.KindHostEvent:
		return s.HostEvent(v.Proc, v.Sender)
	case subjects.KindGateway:
		return s.Gateway(v.MeshName, v.Actor, v.Endpoint, v.Sender)
	case subjects.KindHeartbeat:
		return s.Heartbeat(v.Event, v.Sender)
	case subjects.KindEvent:
		return s.Event(v.Event, v.Scope(), v.Sender)
	case subjects.KindLog:
		return s.Log(v.Proc, v.Stream, v.Sender)
	case subjects.KindReply:
		return s.Reply(v.Sender, v.Token)
	case subjects.KindHint:
		return s.Hint(v.Proc.Process(), v.Link)
	}
	return ""
}

// genSubject draws a parsed subject of any kind.
var genSubject = rapid.Custom(func(t *rapid.T) subjects.Subject {
	v := subjects.Subject{Kind: subjects.Kind(rapid.Uint8Range(1, 13).Draw(t, "kind")),
		Sender: genSender.Draw(t, "sender")}
	ranked := func() { v.Proc = genProc.Draw(t, "proc"); v.Mesh, v.HasRank = v.Proc.Mesh, true }
	process := func() { ranked(); v.Proc = v.Proc.Lead() }
	switch v.Kind {
	case subjects.KindPort:
		ranked()
		v.Actor, v.Port = genName.Draw(t, "actor"), genPort.Draw(t, "port")
	case subjects.KindCast:
		v.Mesh = genMesh.Draw(t, "mesh")
		v.Actor, v.Port, v.Coords = genName.Draw(t, "actor"), genPort.Draw(t, "port"), genWhere.Draw(t, "where")
	case subjects.KindFrame, subjects.KindControl:
		process()
	case subjects.KindHostEvent:
		ranked()
	case subjects.KindHostWrite:
		v.Host, v.Verb = genUnique.Draw(t, "host"), genLabel.Draw(t, "verb")
	case subjects.KindHostRead:
		v.Host, v.Verb = rapid.OneOf(genUnique, rapid.Just(subjects.Any)).Draw(t, "host"), genLabel.Draw(t, "verb")
	case subjects.KindGateway:
		v.MeshName, v.Actor, v.Endpoint = genName.Draw(t, "mesh"), genName.Draw(t, "actor"),
			genLabel.Draw(t, "endpoint")
	case subjects.KindHeartbeat:
		v.Event = genLabel.Draw(t, "kind")
	case subjects.KindEvent:
		v.Event = genLabel.Draw(t, "kind")
		switch about := rapid.IntRange(0, 3).Draw(t, "about"); {
		case about >= 2:
			ranked()
		case about == 1:
			v.Mesh = genMesh.Draw(t, "mesh")
		}
		if v.Mesh.IsValid() && rapid.Bool().Draw(t, "has actor") {
			v.Actor = genName.Draw(t, "actor")
		}
	case subjects.KindLog:
		ranked()
		v.Stream = genLabel.Draw(t, "stream")
	case subjects.KindReply:
		v.Token = genToken.Draw(t, "token")
	case subjects.KindHint:
		process()
		v.Link, v.Sender = genLabel.Draw(t, "link"), subjects.Sender{}
	}
	return v
})

// Every literal of the table stands here, once.
func TestSpace_subjectsMatchTheDocumentedTable(t *testing.T) {
	var s subjects.Space
	mesh := must(subjects.ParseMeshID(mesh1))
	proc := subjects.ProcID{Mesh: mesh, Rank: 12}
	process, actor := proc.Process(), proc.Actor("counter-0c8h4w2n6v1ye")
	anon, from := subjects.Anon(), must(subjects.ParseSender(alice))
	host := must(subjects.ParseHostID(host1))
	for want, got := range map[string]string{
		"p." + rank1 + ".counter-0c8h4w2n6v1ye.add.u-anon.x":     s.Port(actor.Port("add"), anon),
		"p." + rank1 + ".*.*.*.*":                                s.PortsOf(proc),
		"p." + rank1 + ".*.add.*.*":                              s.PortsNamed(proc, "add"),
		"k." + mesh1 + ".worker.step.3-_.u-anon.x":               s.Cast(mesh, "worker", "step", "3-_", anon),
		"k." + mesh1 + ".*.*.3-_.*.*":                            s.CastsOf(mesh, "3-_"),
		"f." + rank1 + "." + alice:                               s.Frame(process, from),
		"f." + rank1 + ".*.*":                                    s.FramesOf(process),
		"c." + rank1 + "." + alice:                               s.Control(process, from),
		"c." + rank1 + ".*.*":                                    s.ControlsOf(process),
		"n." + rank1 + ".1z":                                     s.Hint(process, "1z"),
		"n." + rank1 + ".*":                                      s.HintsOf(process),
		"hr." + host1 + ".ping.u-anon.x":                         s.HostRead(host1, "ping", anon),
		"hr.any.ping.u-anon.x":                                   s.HostRead(subjects.Any, "ping", anon),
		"hr." + host1 + ".*.*.*":                                 s.HostReads(host1, ""),
		"hr.any.ping.*.*":                                        s.HostReads(subjects.Any, "ping"),
		"hw." + host1 + ".drain.u-anon.x":                        s.HostWrite(host, "drain", anon),
		"hw." + host1 + ".drain.*.*":                             s.HostWrites(host, "drain"),
		"hw." + host1 + ".*.*.*":                                 s.HostWrites(host, ""),
		"hv." + rank1 + "." + alice:                              s.HostEvent(proc, from),
		"hv." + mesh1 + ".*.*.*":                                 s.HostEvents(mesh),
		"hv.*.*.*.*":                                             s.HostEvents(subjects.MeshID{}),
		"hb.host.u-anon.x":                                       s.Heartbeat("host", anon),
		"hb.host.*.*":                                            s.Heartbeats("host"),
		"hb.*.*.*":                                               s.Heartbeats(""),
		"cast.trainers.worker.step.u-anon.x":                     s.Gateway("trainers", "worker", "step", anon),
		"cast.trainers.worker.step.*.*":                          s.GatewayTo("trainers", "worker", "step"),
		"cast.*.*.*.*.*":                                         s.Gateways(),
		"ev.online._._._.u-anon.x":                               s.Event("online", subjects.EventScope{}, anon),
		"ev.ready." + mesh1 + "._._.u-anon.x":                    s.Event("ready", mesh.Scope(), anon),
		"ev.exited." + rank1 + "._.u-anon.x":                     s.Event("exited", proc.Scope(), anon),
		"ev.failed." + rank1 + ".counter-0c8h4w2n6v1ye.u-anon.x": s.Event("failed", actor.Scope(), anon),
		"ev.stopped." + mesh1 + "._.worker.u-anon.x": s.Event("stopped",
			subjects.EventScope{Mesh: mesh, Actor: "worker"}, anon),
		"ev.*." + mesh1 + ".*.*.*.*":           s.Events("", mesh),
		"ev.rank." + mesh1 + "._._.*." + proc1: s.EventsBy("rank", mesh, process),
		"ev.actor." + mesh1 + ".*.worker.*.*":  s.ActorEvents("actor", mesh, "worker"),
		"ev.exited.*.*.*.*.*":                  s.Events("exited", subjects.MeshID{}),
		"log." + rank1 + ".stderr.u-anon.x":    s.Log(proc, "stderr", anon),
		"log." + mesh1 + ".*.*.*.*":            s.Logs(mesh),
		"log.*.*.*.*.*":                        s.Logs(subjects.MeshID{}),
		"r.u-anon.x.0c8h4w":                    s.Reply(anon, "0c8h4w"),
		"r." + alice + ".0c8h4w.Xy9":           s.Reply(from, "0c8h4w.Xy9"),
		"r.u-anon.x.>":                         s.Replies(anon),
	} {
		require.Equal(t, "castnet.v1.default."+want, got)
		parsed, err := s.Parse(got)
		if strings.ContainsAny(got, "*>") {
			require.Error(t, err, "SUB-3: a filter is no subject")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, got, build(s, parsed))
	}
}

func TestSpace_buildAndParseAreInverse(t *testing.T) { // SUB-1, SUB-3
	rapid.Check(t, func(t *rapid.T) {
		s, v := genSpace.Draw(t, "space"), genSubject.Draw(t, "subject")
		text := build(s, v)
		require.NotEmpty(t, text)
		require.LessOrEqual(t, len(text), subjects.MaxSubject)
		got, err := s.Parse(text)
		require.NoError(t, err)
		require.Equal(t, v, got)
	})
}

func TestSpace_subjectsMatchThePatternOfTheirKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genSubject.Draw(t, "subject")
		text := strings.TrimPrefix(build(subjects.Space{}, v), "castnet.v1.default.")
		if v.Kind == subjects.KindReply {
			text = strings.TrimSuffix(text, v.Token) + "token"
		}
		require.Equal(t, strings.Count(v.Kind.Pattern(), "."), strings.Count(text, "."))
		require.Equal(t, v.Kind.String(), text[:strings.IndexByte(text, '.')])
	})
}

func TestSpace_invalidPartsYieldNoSubject(t *testing.T) { // SUB-3
	var s subjects.Space
	mesh := must(subjects.ParseMeshID(mesh1))
	proc := subjects.ProcID{Mesh: mesh}
	process := proc.Process()
	anon := subjects.Anon()
	host := must(subjects.ParseHostID(host1))
	for _, bad := range []string{"", "*", ">", "a.b", "a b", "_A", strings.Repeat("a", 70)} {
		for i, got := range []string{
			s.Port(proc.Actor(bad).Port("x"), anon), s.Port(proc.Actor("x").Port(bad), anon),
			s.Cast(mesh, bad, "x", "_", anon), s.Cast(mesh, "x", bad, "_", anon),
			s.Cast(mesh, "x", "x", bad, anon), s.CastsOf(mesh, bad), s.Hint(process, bad),
			s.HostRead(bad, "x", anon), s.HostRead(subjects.Any, bad, anon), s.HostReads(bad, ""),
			s.HostWrite(host, bad, anon),
			s.Gateway(bad, "x", "x", anon), s.Gateway("x", bad, "x", anon), s.Gateway("x", "x", bad, anon),
			s.Heartbeat(bad, anon), s.Event(bad, mesh.Scope(), anon), s.Log(proc, bad, anon), s.Reply(anon, bad+".*"),
		} {
			require.Empty(t, got, "builder %d, part %q", i, bad)
		}
		if bad != "" { // where the empty token means all
			for _, got := range []string{s.HostReads(subjects.Any, bad), s.HostWrites(host, bad), s.Heartbeats(bad),
				s.Events(bad, mesh), s.ActorEvents("x", mesh, bad),
				s.EventsBy(bad, mesh, process),
				s.Event("x", subjects.EventScope{Mesh: mesh, Actor: bad}, anon)} {
				require.Empty(t, got)
			}
		}
	}
	var nobody subjects.Sender
	for i, got := range []string{
		s.Port(proc.Actor("x").Port("x"), nobody), s.Cast(mesh, "x", "x", "_", nobody), s.Frame(process, nobody),
		s.Control(process, nobody), s.HostRead(subjects.Any, "x", nobody), s.HostWrite(host, "x", nobody),
		s.HostEvent(proc, nobody), s.Gateway("x", "x", "x", nobody), s.Heartbeat("x", nobody),
		s.Event("x", mesh.Scope(), nobody), s.Log(proc, "x", nobody), s.Reply(nobody, "x"), s.Replies(nobody),
	} {
		require.Empty(t, got, "builder %d", i)
	}
	var noMesh subjects.MeshID
	var noProc subjects.ProcID
	for _, got := range []string{
		s.Port(noProc.Actor("x").Port("x"), anon), s.PortsOf(noProc), s.PortsNamed(noProc, "x"),
		s.GatewayTo("x", "x", "*"), s.EventsBy("x", noMesh, process), s.EventsBy("x", mesh, noProc.Process()),
		s.Cast(noMesh, "x", "x", "_", anon), s.CastsOf(noMesh, "_"),
		s.Frame(noProc.Process(), anon), s.FramesOf(noProc.Process()), s.ControlsOf(noProc.Process()),
		s.HintsOf(noProc.Process()), s.HostWrite(subjects.HostID{}, "x", anon),
		s.HostWrites(subjects.HostID{}, ""), s.HostEvent(noProc, anon),
		s.Log(noProc, "x", anon), s.Event("x", noProc.Scope(), anon),
		s.Event("x", subjects.EventScope{Actor: "x"}, anon),
	} {
		require.Empty(t, got)
	}
}

func TestSpace_parseErrorsNameTheDefect(t *testing.T) { // SUB-3
	var s subjects.Space
	for subject, want := range map[string]string{
		"":                                                   `want one that starts with castnet.v1.default.`,
		"castnet.v1.other.hb.x.u-anon.x":                     `want one that starts with castnet.v1.default.`,
		"castnet.v2.default.hb.x.u-anon.x":                   `want one that starts with castnet.v1.default.`,
		"castnet.v1.default.":                                `subject kind "": want one of`,
		"castnet.v1.default.zz.a.b":                          `subject kind "zz": want one of`,
		"castnet.v1.default.h.any.info.u-anon.x":             `subject kind "h": want one of`,
		"castnet.v1.default.hb.x":                            `tokens "hb.x": want hb.<kind>.<principal>.<process>`,
		"castnet.v1.default.hb.x.u-a":                        `tokens "hb.x.u-a": want hb.<kind>.<principal>.<process>`,
		"castnet.v1.default.hb.x.u-a.b.c":                    `tokens "hb.x.u-a.b.c": want hb.<kind>.<principal>.<process>`,
		"castnet.v1.default.hb..u-a.b":                       `heartbeat kind "": want 1 to 32`,
		"castnet.v1.default.hb.*.u-a.b":                      `heartbeat kind "*": want 1 to 32`,
		"castnet.v1.default.hb.x..b":                         `principal "": want h, p, s, g, u, o or w`,
		"castnet.v1.default.hb.x.*.b":                        `principal "*": want h, p, s, g, u, o or w`,
		"castnet.v1.default.hb.x.anon.b":                     `principal "anon": want h, p, s, g, u, o or w`,
		"castnet.v1.default.hb.x.u-a.":                       `sender's process "": want label-uid_rank-gen`,
		"castnet.v1.default.hb.x.u-a.>":                      `sender's process ">": want label-uid_rank-gen`,
		"castnet.v1.default.r.u-a.b":                         `reply token "": want 1 to 4 labels`,
		"castnet.v1.default.r.u-a.b.":                        `reply token "": want 1 to 4 labels`,
		"castnet.v1.default.r.u-a.b.1.2.3.4.5":               `reply token "1.2.3.4.5": want 1 to 4 labels`,
		"castnet.v1.default.r.u-a.b.>":                       `reply token ">": want 1 to 4 labels`,
		"castnet.v1.default.p." + mesh1 + ".12.a.b.u-a.x":    `rank "12": want rank-gen`,
		"castnet.v1.default.p." + mesh1 + ".012-0.a.b.u-a.x": `rank "012-0": want rank-gen`,
		"castnet.v1.default.p.trainers.12-0.a.b.u-a.x":       `mesh ID "trainers": want label-uid`,
		"castnet.v1.default.p." + mesh1 + ".1-0.a._B.u-a.x":  `port "_B": want 1 to 32`,
		"castnet.v1.default.k." + mesh1 + ".a.b.03.u-a.x":    `place "03": want 1 to 4 coordinates`,
		"castnet.v1.default.ev.x._.1-0._.u-a.x":              `mesh ID "_": want a mesh, since`,
		"castnet.v1.default.ev.x._._.a.u-a.x":                `mesh ID "_": want a mesh, since`,
		"castnet.v1.default.ev.x." + mesh1 + ".1-0._y.u-a.x": `actor name "_y": want 1 to 32`,
		"castnet.v1.default.f." + proc1 + ".u-a.x":           `mesh ID "` + proc1 + `": want label-uid`,
		"castnet.v1.default.f." + mesh1 + ".3-0-1.u-a.x":     `process "` + mesh1 + `/3.0.1": want rank-gen without an index`,
		"castnet.v1.default.n." + mesh1 + ".3-0._z":          `link "_z": want 1 to 32`,
		"castnet.v1.default.hr.rack.ping.u-a.x":              `host "rack": want a host ID`,
		"castnet.v1.default.hw.any.drain.u-a.x":              `host ID "any": want label-uid`,
	} {
		got, err := s.Parse(subject)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, subject)
		require.ErrorAs(t, err, new(*subjects.Error))
		require.Zero(t, got)
	}
}

func TestSpace_defaultsAndRules(t *testing.T) {
	require.Equal(t, subjects.Space{}, must(subjects.NewSpace("", "")))
	require.Equal(t, subjects.Space{}, must(subjects.NewSpace("castnet", "default")))
	require.Equal(t, "castnet.v1.default", subjects.Space{}.String())
	require.Equal(t, "a.b.v1.c", must(subjects.NewSpace("a.b", "c")).String())
	for _, bad := range [][2]string{{"a..b", ""}, {".", ""}, {"a.*", ""}, {strings.Repeat("abc.", 16) + "d", ""},
		{"", "a.b"}, {"", ">"}, {"$SYS", ""}} {
		_, err := subjects.NewSpace(bad[0], bad[1])
		require.ErrorAs(t, err, new(*subjects.Error))
		require.ErrorContains(t, err, bad[0])
		require.ErrorContains(t, err, bad[1])
	}
}

func TestSpace_longestSubjectIsMaxSubject(t *testing.T) { // SUB-3
	long := strings.Repeat("a", 32)
	unique := long + "-0123456789abc"
	s := must(subjects.NewSpace(long+"."+strings.Repeat("b", 31), long))
	mesh := must(subjects.ParseMeshID(unique))
	from := subjects.NewSender(subjects.Host.Principal(long),
		subjects.ProcID{Mesh: mesh, Rank: 1<<32 - 1, Gen: 1<<32 - 1}.Process())
	where := "4294967295-4294967295-4294967295-4294967295"
	require.Len(t, s.Cast(mesh, unique, long, where, from), subjects.MaxSubject)
	require.Equal(t, 377, subjects.MaxSubject)
}

func TestSpace_hotPathAllocatesNothing(t *testing.T) { // SUB-5
	var s subjects.Space
	mesh := must(subjects.ParseMeshID(mesh1))
	id := subjects.ProcID{Mesh: mesh, Rank: 12}.Actor("counter-0c8h4w2n6v1ye").Port("add")
	from := must(subjects.ParseSender(alice))
	process := id.Actor.Proc.Process()
	for _, subject := range []string{s.Port(id, from), s.Cast(mesh, "worker", "step", "3-_", from),
		s.Frame(process, from), s.Control(process, from), s.Hint(process, "1z"), s.Heartbeat("host", from),
		s.HostRead(host1, "ping", from), s.HostEvent(id.Actor.Proc, from), s.Reply(from, "x"),
		s.Gateway("trainers", "worker", "step", subjects.Anon())} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := s.Parse(subject); err != nil {
				t.Error(err)
			}
		}))
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = s.Port(id, from) }), 1.0)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = s.Frame(process, from) }), 1.0)
}

func FuzzSpace_parse(f *testing.F) {
	for _, tail := range []string{
		"p." + rank1 + ".counter.add.u-anon.x", "k." + mesh1 + ".worker.step.3-_." + alice, "f." + rank1 + ".u-anon.x",
		"c." + rank1 + "." + alice, "n." + rank1 + ".1z", "hr.any.ping.u-anon.x", "hw." + host1 + ".drain." + alice,
		"hv." + rank1 + ".h-rack." + host1 + "_0-0", "cast.trainers.worker.step.u-anon.x", "hb.host.u-anon.x",
		"ev.exited." + rank1 + "._.u-anon.x", "ev.x._._._.w-eye.x", "log." + rank1 + ".stderr.p-rack.x",
		"r.u-alice.x.y.z", "", "..", "p",
	} {
		f.Add("castnet.v1.default." + tail)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s subjects.Space
		v, err := s.Parse(text)
		if err != nil {
			require.Zero(t, v)
			return
		}
		require.Equal(t, text, build(s, v))
		require.LessOrEqual(t, len(text), subjects.MaxSubject)
	})
}

func BenchmarkSpace_parsePort(b *testing.B) {
	var s subjects.Space
	subject := s.Port(must(subjects.ParsePortID(mesh1+"/12.0/counter-0c8h4w2n6v1ye:add")),
		must(subjects.ParseSender(alice)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Parse(subject); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSpace_buildPort(b *testing.B) {
	var s subjects.Space
	id := must(subjects.ParsePortID(mesh1 + "/12.0/counter-0c8h4w2n6v1ye:add"))
	from := must(subjects.ParseSender(alice))
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Port(id, from)
	}
}

func TestSpace_ownsItsSubjectsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSpace.Draw(t, "space")
		require.Equal(t, s, must(subjects.NewSpace(s.Root(), s.Namespace())))
		require.True(t, s.Owns(build(s, genSubject.Draw(t, "subject"))))
	})
	s := must(subjects.NewSpace("a.b", "c"))
	require.Equal(t, [2]string{"a.b", "c"}, [2]string{s.Root(), s.Namespace()})
	require.True(t, s.Owns("a.b.v1.other.hb.x.y"))
	for _, foreign := range []string{"", "a.b", "a.bc.v1.c.x", "_INBOX.x", "a.v1.c.x"} {
		require.False(t, s.Owns(foreign), foreign)
	}
}
