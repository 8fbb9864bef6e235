package subjects_test

import (
	"encoding"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/subjects"
)

// id has the methods of every ID.
type id[T any] interface {
	comparable
	encoding.TextAppender
	encoding.TextMarshaler
	String() string
	IsValid() bool
	Compare(T) int
}

// parsed has the methods of every *ID.
type parsed[T any] interface {
	*T
	encoding.TextUnmarshaler
}

// checkID holds SUB-1 for one text: it is refused, or stands for exactly one valid value, by every
// way in and out.
func checkID[T id[T], P parsed[T]](t require.TestingT, parse func(string) (T, error), text string) bool {
	v, err := parse(text)
	var u T
	uerr := P(&u).UnmarshalText([]byte(text))
	require.Equal(t, err == nil, uerr == nil, "UnmarshalText is the Parse function")
	require.Equal(t, v, u)
	require.Equal(t, err == nil, v.IsValid())
	if err != nil {
		require.Zero(t, v)
		require.ErrorAs(t, err, new(*subjects.Error))
		return false
	}
	require.Equal(t, text, v.String())
	require.Zero(t, v.Compare(u))
	b, err := v.MarshalText()
	require.NoError(t, err)
	require.Equal(t, text, string(b))
	b, err = v.AppendText([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, "x"+text, string(b))
	return true
}

// checkAll runs checkID for every kind of ID and returns the kinds that accept text.
func checkAll(t require.TestingT, text string) (accepted []string) {
	for name, check := range map[string]func() bool{
		"mesh":    func() bool { return checkID[subjects.MeshID](t, subjects.ParseMeshID, text) },
		"host":    func() bool { return checkID[subjects.HostID](t, subjects.ParseHostID, text) },
		"proc":    func() bool { return checkID[subjects.ProcID](t, subjects.ParseProcID, text) },
		"process": func() bool { return checkID[subjects.ProcessID](t, subjects.ParseProcessID, text) },
		"actor":   func() bool { return checkID[subjects.ActorID](t, subjects.ParseActorID, text) },
		"port":    func() bool { return checkID[subjects.PortID](t, subjects.ParsePortID, text) },
	} {
		if check() {
			accepted = append(accepted, name)
		}
	}
	return accepted
}

func TestID_textRoundTrips(t *testing.T) {
	for text, kinds := range map[string][]string{
		mesh1:                               {"mesh", "host"},
		"a-b_c-7kd93x0b5m2qa":               {"mesh", "host"},
		mesh1 + "/12.0":                     {"proc"},
		mesh1 + "/4294967295.4294967295":    {"proc"},
		proc1:                               {"process"},
		"a_1-2-7kd93x0b5m2qa_0-0":           {"process"},
		mesh1 + "/12.0/agent":               {"actor"},
		mesh1 + "/12.0/" + mesh1:            {"actor"},
		mesh1 + "/12.0/agent:stop":          {"port"},
		mesh1 + "/12.0/agent:_0z":           {"port"},
		strings.Repeat("a", 32) + mesh1[8:]: {"mesh", "host"},
	} {
		require.ElementsMatch(t, kinds, checkAll(t, text), text)
	}
}

func TestID_otherSpellingsAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "-", "/", ":", "_", "trainers", "-7kd93x0b5m2qa", "trainers-7kd93x0b5m2q", "trainers-7KD93x0b5m2qa",
		"tr.ainers-7kd93x0b5m2qa", "_trainers-7kd93x0b5m2qa", "träiners-7kd93x0b5m2qa",
		strings.Repeat("a", 33) + "-7kd93x0b5m2qa",
		mesh1 + "/", mesh1 + "/1", mesh1 + "/1.", mesh1 + "/.1", mesh1 + "/01.0", mesh1 + "/+1.0", mesh1 + "/1.-1",
		mesh1 + "/4294967296.0", mesh1 + "/99999999999.0", mesh1 + "/1.0.0", mesh1 + "/1.0/", mesh1 + "/1.0/_x",
		mesh1 + "/1.0/a b",
		mesh1 + "/1.0/a/b", mesh1 + "/1.0/a:", mesh1 + "/1.0/a:b:c", mesh1 + "/1.0/a:_", mesh1 + "/1.0/a:_A",
		mesh1 + "/1.0/a:_" + strings.Repeat("a", 32),
		mesh1 + "_1", mesh1 + "_01-0", mesh1 + "_1-0_1", mesh1 + "_1.0", "x_1-0", "\x00", mesh1 + "\n",
	} {
		require.Empty(t, checkAll(t, text), "%q", text)
	}
}

func TestID_everyValueRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPortID.Draw(t, "port")
		proc := p.Actor.Proc
		require.True(t, checkID[subjects.PortID](t, subjects.ParsePortID, p.String()))
		require.True(t, checkID[subjects.ActorID](t, subjects.ParseActorID, p.Actor.String()))
		require.True(t, checkID[subjects.ProcID](t, subjects.ParseProcID, proc.String()))
		require.True(t, checkID[subjects.ProcessID](t, subjects.ParseProcessID, proc.Process().String()))
		require.Equal(t, p, must(subjects.ParsePortID(p.String())))
		require.Equal(t, proc.Lead(), proc.Process().Proc())
		require.Equal(t, proc.Mesh.String(), proc.Mesh.Label()+"-"+proc.Mesh.UID())
	})
}

func TestID_compareAgreesWithEquality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genPortID.Draw(t, "a"), genPortID.Draw(t, "b")
		if rapid.Bool().Draw(t, "same mesh") {
			b.Actor.Proc.Mesh = a.Actor.Proc.Mesh
		}
		require.Equal(t, a == b, a.Compare(b) == 0)
		require.Equal(t, a.Compare(b), -b.Compare(a))
		one, other := a.Actor.Proc.Lead(), b.Actor.Proc.Lead()
		require.Equal(t, one.Compare(other), one.Process().Compare(other.Process()))
	})
}

func TestActorID_roundTripsWithinItsProcess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := genPortID.Draw(t, "port").Actor
		require.Equal(t, id, id.Proc.Process().ActorByLocalName(id.LocalName()))
	})
	p := must(subjects.ParseProcID(mesh1 + "/4294967295.0")).Process()
	for _, name := range []string{"1!a", "0!a", "!a", "01!a", "x!a", "-1!a"} {
		require.False(t, p.ActorByLocalName(name).IsValid(), name)
	}
}

func TestProcID_ordersByNumberNotText(t *testing.T) {
	mesh := must(subjects.ParseMeshID(mesh1))
	require.Negative(t, subjects.ProcID{Mesh: mesh, Rank: 9}.Compare(subjects.ProcID{Mesh: mesh, Rank: 10}))
	require.Negative(t, subjects.ProcID{Mesh: mesh, Rank: 9}.Process().
		Compare(subjects.ProcID{Mesh: mesh, Rank: 10}.Process()))
}

func TestID_invalidValuesHaveNoText(t *testing.T) { // SUB-1
	mesh := must(subjects.ParseMeshID(mesh1))
	proc := subjects.ProcID{Mesh: mesh}
	for _, v := range []interface {
		encoding.TextMarshaler
		String() string
		IsValid() bool
	}{
		subjects.MeshID{}, subjects.HostID{}, subjects.ProcID{}, subjects.ProcessID{}, subjects.ActorID{},
		subjects.PortID{},
		subjects.ProcID{Rank: 1}, subjects.ProcID{}.Process(), subjects.HostID{}.Proc(),
		subjects.ProcessID{}.Proc(),
		proc.Actor(""), proc.Actor("a.b"), proc.Actor("a").Port("*"), subjects.ProcID{}.Actor("a").Port("b"),
	} {
		require.False(t, v.IsValid(), "%#v", v)
		require.Empty(t, v.String())
		_, err := v.MarshalText()
		require.ErrorAs(t, err, new(*subjects.Error))
	}
	require.Empty(t, subjects.MeshID{}.Label()+subjects.MeshID{}.UID()+subjects.HostID{}.Label()+
		subjects.HostID{}.UID())
}

func TestHostID_isRankZeroOfItsUnitMesh(t *testing.T) {
	host := must(subjects.ParseHostID(host1))
	require.Equal(t, host1+"/0.0", host.Proc().String())
	require.Equal(t, host1+"_0-0", host.Proc().Process().String())
	require.Equal(t, "rack3n07", host.Label())
	require.Equal(t, "2m9qx1k4h0t7c", host.UID())
}

func TestNew_drawsValidDistinctNames(t *testing.T) {
	seen := map[string]bool{}
	rule := regexp.MustCompile(`^a-b-[0-9a-z]{13}$`)
	for range 1000 {
		for _, s := range []string{
			must(subjects.NewMeshID("a-b")).String(), must(subjects.NewHostID("a-b")).String(),
			must(subjects.NewName("a-b")),
		} {
			require.Regexp(t, rule, s)
			require.False(t, seen[s], s)
			require.ElementsMatch(t, []string{"mesh", "host"}, checkAll(t, s))
			require.NoError(t, subjects.CheckName("name", s))
			seen[s] = true
		}
	}
}

func TestNew_badLabelNamesInputAndRule(t *testing.T) {
	_, err := subjects.NewHostID("a.b")
	require.EqualError(t, err,
		`host label "a.b": want 1 to 32 characters of A-Z a-z 0-9 _ -, starting with a letter or digit`)
	_, err = subjects.NewMeshID("")
	require.ErrorContains(t, err, `mesh label "": want 1 to 32`)
	_, err = subjects.NewName("_x")
	require.ErrorContains(t, err, `actor label "_x": want 1 to 32`)
}

func TestError_truncatesALongInput(t *testing.T) {
	err := subjects.CheckLabel("verb", strings.Repeat("x", 1<<20))
	require.Less(t, len(err.Error()), 400)
	require.ErrorContains(t, err, "(1048576 bytes)")
}

func TestCheck_tokensMatchTheirRegexps(t *testing.T) {
	const label = `[A-Za-z0-9][A-Za-z0-9_-]{0,31}`
	// Every number below 2^32.
	const number = `(0|[1-9][0-9]{0,8}|[1-3][0-9]{9}|4[01][0-9]{8}|42[0-8][0-9]{7}|429[0-3][0-9]{6}|4294[0-8][0-9]{5}|` +
		`42949[0-5][0-9]{4}|429496[0-6][0-9]{3}|4294967[01][0-9]{2}|42949672[0-8][0-9]|429496729[0-5])`
	rules := []struct {
		check func(string) error
		rule  *regexp.Regexp
	}{
		{func(s string) error { return subjects.CheckLabel("x", s) }, regexp.MustCompile(`^` + label + `\z`)},
		{func(s string) error { return subjects.CheckName("x", s) },
			regexp.MustCompile(`^` + label + `(-[0-9a-z]{13})?\z`)},
		{subjects.CheckPort, regexp.MustCompile(`^(` + label + `|_[0-9a-z]{1,31})\z`)},
		{subjects.CheckCoords, regexp.MustCompile(`^(_|` + number + `)(-(_|` + number + `)){0,3}\z`)},
		{func(s string) error { _, err := subjects.ParsePrincipal(s); return err },
			regexp.MustCompile(`^[hpsguowc]-` + label + `\z`)},
		{func(s string) error { _, err := subjects.ParseSender(s); return err },
			regexp.MustCompile(`^[hpsguowc]-` + label + `\.(` + label + `|` + label + `-[0-9a-z]{13}_` + number + `-` +
				number + `)\z`)},
	}
	noise := rapid.StringMatching(`[A-Za-z0-9_.*> -]{0,50}`)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(noise, genLabel, genUnique, genPort, genWhere, genPrincipal,
			rapid.Map(genSender, subjects.Sender.String), rapid.StringMatching(`[a-z]-[a-z-]{0,3}\.[a-z_]{0,3}`),
			rapid.StringMatching(label+`-[0-9a-z]{13}_[0-9]{1,11}-[0-9]{1,11}`),
			rapid.StringMatching(`[0-9]{9,11}(-[34][0-9]{9})?`)).Draw(t, "token")
		for i, r := range rules {
			require.Equal(t, r.rule.MatchString(s), r.check(s) == nil, "rule %d, %q", i, s)
		}
	})
	require.NoError(t, subjects.CheckCoords("4294967295-_-0-7"))
	require.Error(t, subjects.CheckCoords("4294967296"))
	require.Error(t, subjects.CheckCoords("1-2-3-4-5"))
}

func TestSender_isThePairOfItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		principal := must(subjects.ParsePrincipal(genPrincipal.Draw(t, "principal")))
		process := genProc.Draw(t, "proc").Process()
		s := subjects.NewSender(principal, process)
		require.Equal(t, principal.String()+"."+process.String(), s.String())
		require.Equal(t, s, must(subjects.ParseSender(s.String())))
		require.Equal(t, principal, s.Principal())
		require.Equal(t, process, must(s.Process()))
		var read subjects.Sender
		require.NoError(t, read.UnmarshalText(must(s.MarshalText())))
		require.Equal(t, s, read)
	})
	foreign := must(subjects.ParseSender("u-alice.laptop"))
	_, err := foreign.Process()
	require.ErrorContains(t, err, `process ID "laptop"`)
	require.Equal(t, "u-anon.x", subjects.Anon().String())
	require.Equal(t, subjects.Anon(), must(subjects.ParseSender("u-anon.x")))
}

func TestSender_invalidPartsYieldNone_SUB1(t *testing.T) {
	process := must(subjects.ParseProcessID(proc1))
	principal := subjects.UserPrincipal(subjects.Program, "alice")
	for _, s := range []subjects.Sender{{}, subjects.NewSender(subjects.Principal{}, process),
		subjects.NewSender(principal, subjects.ProcessID{})} {
		require.False(t, s.IsValid())
		require.Empty(t, s.String())
		require.False(t, s.Principal().IsValid())
		_, err := s.Process()
		require.Error(t, err)
		_, err = s.MarshalText()
		require.ErrorAs(t, err, new(*subjects.Error))
	}
	for _, text := range []string{"", ".", "u-alice", "u-alice.", ".x", "u-alice.x.y", "alice.x", "x-alice.x", "u-.x",
		"u-*.x", "u-alice.*", "u-alice.>", "U-alice.x"} {
		_, err := subjects.ParseSender(text)
		require.ErrorAs(t, err, new(*subjects.Error), text)
	}
}

func TestPrincipal_namesTheRoleAndItsHostOrUser(t *testing.T) {
	for want, got := range map[string]subjects.Principal{
		"h-rack3n07": subjects.Host.Principal("rack3n07"), "p-rack3n07": subjects.Proc.Principal("rack3n07"),
		"s-rack3n07": subjects.System.Principal("rack3n07"), "g-rack3n07": subjects.Gateway.Principal("rack3n07"),
		"u-alice": subjects.UserPrincipal(subjects.Program, "alice"),
		"u-anon":  subjects.UserPrincipal(subjects.Program, `CORP\alice.b`),
		"":        subjects.Host.Principal("*"),
	} {
		require.Equal(t, want, got.String())
		require.Equal(t, want != "", got.IsValid())
		if parsed, err := subjects.ParsePrincipal(want); want != "" {
			require.NoError(t, err)
			require.Equal(t, got, parsed)
		}
	}
	for _, text := range []string{"", "h", "h-", "x-rack", "rack", "h_rack", "h-*", "h->", "h-a.b"} {
		_, err := subjects.ParsePrincipal(text)
		require.ErrorAs(t, err, new(*subjects.Error), text)
	}
}

func FuzzID(f *testing.F) {
	for _, text := range []string{mesh1, proc1, mesh1 + "/1.0", mesh1 + "/1.0/agent",
		mesh1 + "/1.0/agent:_0", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkAll(t, text) })
}

func TestRole_hasANameAndPrincipals_SUB1(t *testing.T) {
	for _, role := range subjects.AllRoles() {
		require.Equal(t, role, must(subjects.ParseRole(role.String())))
		require.Equal(t, role, role.Principal("a").Role())
		require.Equal(t, "a", role.Principal("a").Label())
		require.Equal(t, role.Principal("anon"), subjects.UserPrincipal(role, "no label"))
	}
	for _, none := range []subjects.Role{0, 9, 255} {
		require.Empty(t, none.String())
		require.False(t, none.Principal("a").IsValid())
	}
	require.Zero(t, subjects.Principal{}.Role())
	_, err := subjects.ParseRole("root")
	require.ErrorContains(t, err, `role "root"`)
	require.True(t, subjects.Host.IsOneOf(subjects.UserRoles()...) == false && subjects.Caster.IsOneOf(subjects.UserRoles()...))
}
