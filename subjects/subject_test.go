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
		return s.Port(v.Proc.Actor(v.Actor).Port(v.Port), v.From)
	case subjects.KindCast:
		return s.Cast(v.Mesh, v.Actor, v.Port, v.Coords, v.From)
	case subjects.KindFrame:
		return s.Frame(v.Process, v.From)
	case subjects.KindControl:
		return s.Control(v.Process, v.From)
	case subjects.KindHost:
		return s.Host(v.Host, v.Verb, v.From)
	case subjects.KindGateway:
		return s.Gateway(v.MeshName, v.Actor, v.Endpoint, v.From)
	case subjects.KindHeartbeat:
		return s.Heartbeat(v.Event, v.From)
	case subjects.KindEvent:
		return s.Event(v.Event, v.Scope(), v.From)
	case subjects.KindLog:
		return s.Log(v.Proc, v.Stream, v.From)
	case subjects.KindReply:
		return s.Reply(v.From, v.Token)
	case subjects.KindHint:
		return s.Hint(v.Process, v.Link)
	}
	return ""
}

// genSubject draws a parsed subject of any kind.
var genSubject = rapid.Custom(func(t *rapid.T) subjects.Subject {
	v := subjects.Subject{Kind: subjects.Kind(rapid.Uint8Range(1, 11).Draw(t, "kind")),
		From: genFrom.Draw(t, "from")}
	ranked := func() { v.Proc = genProc.Draw(t, "proc"); v.Mesh, v.HasRank = v.Proc.Mesh, true }
	switch v.Kind {
	case subjects.KindPort:
		ranked()
		v.Actor, v.Port = genName.Draw(t, "actor"), genPort.Draw(t, "port")
	case subjects.KindCast:
		v.Mesh = genMesh.Draw(t, "mesh")
		v.Actor, v.Port, v.Coords = genName.Draw(t, "actor"), genPort.Draw(t, "port"), genWhere.Draw(t, "where")
	case subjects.KindFrame, subjects.KindControl:
		v.Process = genProc.Draw(t, "process").Process()
	case subjects.KindHost:
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
		v.Process, v.Link, v.From = genProc.Draw(t, "process").Process(), v.From, ""
	}
	return v
})

// Every literal of the table stands here, once.
func TestSpace_subjectsMatchTheDocumentedTable(t *testing.T) {
	var s subjects.Space
	mesh := must(subjects.ParseMeshID(mesh1))
	proc := subjects.ProcID{Mesh: mesh, Rank: 12}
	process, actor := proc.Process(), proc.Actor("counter-0c8h4w2n6v1ye")
	for want, got := range map[string]string{
		"p.trainers-7kd93x0b5m2qa.12-0.counter-0c8h4w2n6v1ye.add.anon": s.Port(actor.Port("add"), "anon"),
		"p.trainers-7kd93x0b5m2qa.12-0.*.*.*":                          s.PortsOf(proc),
		"k.trainers-7kd93x0b5m2qa.worker.step.3-_.anon": s.Cast(mesh, "worker", "step",
			"3-_", "anon"),
		"k.trainers-7kd93x0b5m2qa.*.*.3-_.*":                        s.CastsOf(mesh, "3-_"),
		"f.trainers-7kd93x0b5m2qa_12-0.anon":                        s.Frame(process, "anon"),
		"f.trainers-7kd93x0b5m2qa_12-0.*":                           s.FramesOf(process),
		"c.trainers-7kd93x0b5m2qa_12-0.trainers-7kd93x0b5m2qa_12-0": s.Control(process, process.String()),
		"c.trainers-7kd93x0b5m2qa_12-0.*":                           s.ControlsOf(process),
		"h.rack3n07-2m9qx1k4h0t7c.ping.anon":                        s.Host(host1, "ping", "anon"),
		"h.any.ping.anon":                                           s.Host(subjects.Any, "ping", "anon"),
		"h.rack3n07-2m9qx1k4h0t7c.*.*":                              s.HostVerbs(host1, ""),
		"h.any.ping.*":                                              s.HostVerbs(subjects.Any, "ping"),
		"cast.trainers.worker.step.anon": s.Gateway("trainers", "worker",
			"step", "anon"),
		"cast.trainers.worker.step.*": s.GatewayTo("trainers",
			"worker", "step"),
		"p.trainers-7kd93x0b5m2qa.12-0.*.add.*": s.PortsNamed(proc, "add"),
		"cast.*.*.*.*":                          s.Gateways(),
		"hb.host.anon":                          s.Heartbeat("host", "anon"),
		"hb.host.*":                             s.Heartbeats("host"),
		"hb.*.*":                                s.Heartbeats(""),
		"ev.online._._._.anon": s.Event("online",
			subjects.EventScope{}, "anon"),
		"ev.ready.trainers-7kd93x0b5m2qa._._.anon":     s.Event("ready", mesh.Scope(), "anon"),
		"ev.exited.trainers-7kd93x0b5m2qa.12-0._.anon": s.Event("exited", proc.Scope(), "anon"),
		"ev.failed.trainers-7kd93x0b5m2qa.12-0.counter-0c8h4w2n6v1ye.anon": s.Event("failed",
			actor.Scope(), "anon"),
		"ev.stopped.trainers-7kd93x0b5m2qa._.worker.anon": s.Event("stopped",
			subjects.EventScope{Mesh: mesh, Actor: "worker"}, "anon"),
		"ev.*.trainers-7kd93x0b5m2qa.*.*.*":                        s.Events("", mesh),
		"ev.actor.*.0-0.agent.*":                                   s.RankZeroEvents("actor", "agent"),
		"ev.actor.trainers-7kd93x0b5m2qa.*.worker.*":               s.ActorEvents("actor", mesh, "worker"),
		"ev.exited.*.*.*.*":                                        s.Events("exited", subjects.MeshID{}),
		"log.trainers-7kd93x0b5m2qa.12-0.stderr.anon":              s.Log(proc, "stderr", "anon"),
		"log.trainers-7kd93x0b5m2qa.*.*.*":                         s.Logs(mesh),
		"log.*.*.*.*":                                              s.Logs(subjects.MeshID{}),
		"r.alice.0c8h4w":                                           s.Reply("alice", "0c8h4w"),
		"r.alice.0c8h4w.Xy9":                                       s.Reply("alice", "0c8h4w.Xy9"),
		"r.alice.>":                                                s.Replies("alice"),
		"n.trainers-7kd93x0b5m2qa_12-0.rack3n07-2m9qx1k4h0t7c_0-0": s.Hint(process, host1+"_0-0"),
		"n.trainers-7kd93x0b5m2qa_12-0.*":                          s.HintsOf(process),
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
	for _, bad := range []string{"", "*", ">", "a.b", "a b", "_A", strings.Repeat("a", 70)} {
		for i, got := range []string{
			s.Port(proc.Actor(bad).Port("x"), "anon"), s.Port(proc.Actor("x").Port(bad), "anon"),
			s.Port(proc.Actor("x").Port("x"), bad),
			s.Cast(mesh, bad, "x", "_", "anon"), s.Cast(mesh, "x", bad, "_", "anon"),
			s.Cast(mesh, "x", "x", bad, "anon"), s.Cast(mesh, "x", "x", "_", bad),
			s.CastsOf(mesh, bad), s.Frame(process, bad), s.Control(process, bad), s.Hint(process, bad),
			s.Host(bad, "x", "anon"), s.Host(subjects.Any, bad, "anon"), s.Host(subjects.Any, "x", bad),
			s.HostVerbs(bad, ""),
			s.Gateway(bad, "x", "x", "anon"), s.Gateway("x", bad, "x", "anon"), s.Gateway("x", "x", bad, "anon"),
			s.Gateway("x", "x", "x", bad),
			s.Heartbeat(bad, "anon"), s.Heartbeat("x", bad), s.Event(bad, mesh.Scope(), "anon"),
			s.Event("x", mesh.Scope(), bad),
			s.Log(proc, bad, "anon"), s.Log(proc, "x", bad), s.Reply(bad, "x"), s.Reply("x", bad+".*"), s.Replies(bad),
		} {
			require.Empty(t, got, "builder %d, part %q", i, bad)
		}
		if bad != "" { // where the empty token means all
			for _, got := range []string{s.HostVerbs(subjects.Any, bad), s.Heartbeats(bad), s.Events(bad, mesh),
				s.RankZeroEvents("x", bad), s.ActorEvents("x", mesh, bad),
				s.Event("x", subjects.EventScope{Mesh: mesh, Actor: bad}, "anon")} {
				require.Empty(t, got)
			}
		}
	}
	var noMesh subjects.MeshID
	var noProc subjects.ProcID
	for _, got := range []string{
		s.Port(noProc.Actor("x").Port("x"), "anon"), s.PortsOf(noProc), s.PortsNamed(noProc, "x"),
		s.GatewayTo("x", "x", "*"), s.Cast(noMesh, "x", "x", "_", "anon"), s.CastsOf(noMesh, "_"),
		s.Frame(noProc.Process(), "anon"), s.FramesOf(noProc.Process()), s.ControlsOf(noProc.Process()),
		s.HintsOf(noProc.Process()),
		s.Log(noProc, "x", "anon"), s.Event("x", noProc.Scope(), "anon"),
		s.Event("x", subjects.EventScope{Actor: "x"}, "anon"),
	} {
		require.Empty(t, got)
	}
}

func TestSpace_parseErrorsNameTheDefect(t *testing.T) { // SUB-3
	var s subjects.Space
	for subject, want := range map[string]string{
		"":                                                  `want one that starts with castnet.v1.default.`,
		"castnet.v1.other.hb.x.anon":                        `want one that starts with castnet.v1.default.`,
		"castnet.v2.default.hb.x.anon":                      `want one that starts with castnet.v1.default.`,
		"castnet.v1.default.":                               `subject kind "": want one of`,
		"castnet.v1.default.zz.a.b":                         `subject kind "zz": want one of`,
		"castnet.v1.default.hb.x":                           `tokens "hb.x": want hb.<kind>.<from>`,
		"castnet.v1.default.hb.x.a.b":                       `tokens "hb.x.a.b": want hb.<kind>.<from>`,
		"castnet.v1.default.hb..a":                          `heartbeat kind "": want 1 to 32`,
		"castnet.v1.default.hb.*.a":                         `heartbeat kind "*": want 1 to 32`,
		"castnet.v1.default.hb.x.":                          `sender "": want a process`,
		"castnet.v1.default.r.a":                            `reply token "": want 1 to 4 labels`,
		"castnet.v1.default.r.a.":                           `reply token "": want 1 to 4 labels`,
		"castnet.v1.default.r.a.1.2.3.4.5":                  `reply token "1.2.3.4.5": want 1 to 4 labels`,
		"castnet.v1.default.r.a.>":                          `reply token ">": want 1 to 4 labels`,
		"castnet.v1.default.p." + mesh1 + ".12.a.b.anon":    `rank "12": want rank-gen`,
		"castnet.v1.default.p." + mesh1 + ".012-0.a.b.anon": `rank "012-0": want rank-gen`,
		"castnet.v1.default.p.trainers.12-0.a.b.anon":       `mesh ID "trainers": want label-uid`,
		"castnet.v1.default.p." + mesh1 + ".1-0.a._B.anon":  `port "_B": want 1 to 32`,
		"castnet.v1.default.k." + mesh1 + ".a.b.03.anon":    `place "03": want 1 to 4 coordinates`,
		"castnet.v1.default.ev.x._.1-0._.anon":              `mesh ID "_": want a mesh, since`,
		"castnet.v1.default.ev.x._._.a.anon":                `mesh ID "_": want a mesh, since`,
		"castnet.v1.default.ev.x." + mesh1 + ".1-0._y.anon": `actor name "_y": want 1 to 32`,
		"castnet.v1.default.f." + mesh1 + ".anon":           `process ID "` + mesh1 + `": want mesh_rank-gen`,
		"castnet.v1.default.h.rack.ping.anon":               `host "rack": want a host ID`,
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
	from := subjects.ProcID{Mesh: mesh, Rank: 1<<32 - 1, Gen: 1<<32 - 1}.Process().String()
	where := "4294967295-4294967295-4294967295-4294967295"
	require.Len(t, s.Cast(mesh, unique, long, where, from), subjects.MaxSubject)
	require.Equal(t, 342, subjects.MaxSubject)
}

func TestSpace_hotPathAllocatesNothing(t *testing.T) { // SUB-5
	var s subjects.Space
	mesh := must(subjects.ParseMeshID(mesh1))
	id := subjects.ProcID{Mesh: mesh, Rank: 12}.Actor("counter-0c8h4w2n6v1ye").Port("add")
	for _, subject := range []string{s.Port(id, proc1), s.Cast(mesh, "worker", "step", "3-_", proc1)} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := s.Parse(subject); err != nil {
				t.Error(err)
			}
		}))
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = s.Port(id, proc1) }), 1.0)
}

func FuzzSpace_parse(f *testing.F) {
	for _, tail := range []string{
		"p." + mesh1 + ".12-0.counter.add.anon", "k." + mesh1 + ".worker.step.3-_." + proc1, "f." + proc1 + ".anon",
		"c." + proc1 + "." + proc1,
		"h.any.ping.anon", "cast.trainers.worker.step.anon", "hb.host.anon", "ev.exited." + mesh1 + ".12-0._.anon",
		"ev.x._._._.anon",
		"log." + mesh1 + ".12-0.stderr.anon", "r.alice.x.y", "n." + proc1 + "." + proc1, "", "..", "p",
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
	subject := s.Port(must(subjects.ParsePortID(mesh1+"/12.0/counter-0c8h4w2n6v1ye:add")), proc1)
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
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Port(id, proc1)
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
