package polyglot

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var update = flag.Bool("update", false, "write spec/vectors.json anew")

// vectors is spec/vectors.json. spec/README.md explains each list.
type vectors struct {
	About    string          `json:"about"`
	Subjects []subjectVector `json:"subjects"`
	Refused  []refusedVector `json:"not_subjects"`
	Tokens   []tokenVector   `json:"tokens"`
	Points   []pointVector   `json:"points"`
	Regions  []regionVector  `json:"regions"`
	Formats  []formatVector  `json:"formats"`
	Values   []valueVector   `json:"values"`
	Packets  []packetVector  `json:"packets"`
	Requests []requestVector `json:"requests"`
}

type subjectVector struct {
	Kind    string         `json:"kind"`
	Space   string         `json:"space"`
	Parts   map[string]any `json:"parts"`
	Subject string         `json:"subject"`
}

type refusedVector struct {
	Subject string `json:"subject"`
	Error   string `json:"error"`
}

type tokenVector struct {
	Rule  string `json:"rule"`
	Text  string `json:"text"`
	Valid bool   `json:"valid"`
}

type pointVector struct {
	Extent string `json:"extent"`
	Rank   int    `json:"rank"`
	Point  string `json:"point"`
}

// regionVector is a selection of ranks of an extent, or an error.
type regionVector struct {
	Extent   string `json:"extent"`
	Region   string `json:"region"`
	Ranks    []int  `json:"ranks,omitempty"`
	Describe string `json:"describe,omitempty"`
	Error    string `json:"error,omitempty"`
}

type formatVector struct {
	ContentType string `json:"content_type"`
	Body        string `json:"body"` // hex
	Format      string `json:"format,omitempty"`
	Error       string `json:"error,omitempty"`
}

// valueVector is one value in both formats.
type valueVector struct {
	JSON json.RawMessage `json:"json"`
	CBOR string          `json:"cbor"`
}

func TestVectors_matchTheCode(t *testing.T) { // PLY-1
	path := repo(t, "spec", "vectors.json")
	var made bytes.Buffer
	out := json.NewEncoder(&made)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	require.NoError(t, out.Encode(vectors{
		About: "Test vectors of castnet's wire, v1. Made from the Go code by integration/polyglot; see " +
			"README.md.",
		Subjects: subjectVectors(t),
		Refused:  refusedVectors(t),
		Tokens:   tokenVectors(),
		Points:   pointVectors(t),
		Regions:  regionVectors(t),
		Formats:  formatVectors(),
		Values:   valueVectors(t),
		Packets:  packetVectors(t),
		Requests: requestVectors(),
	}))
	if *update {
		require.NoError(t, os.WriteFile(path, made.Bytes(), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(made.Bytes(), got),
		"the code makes other vectors than spec/vectors.json holds (PLY-1): "+
			"if the wire is meant to change, go test -C integration/polyglot -run TestVectors -update, and look at "+
			"its diff")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// subjectVectors builds each kind of subject that a plain client uses.
func subjectVectors(t *testing.T) (all []subjectVector) {
	mesh := must(subjects.ParseMeshID("trainers-7kd93x0b5m2qa"))
	host := must(subjects.ParseHostID("rack3n07-2m9qx1k4h0t7c"))
	process := subjects.ProcID{Mesh: mesh, Rank: 12}
	indexed := subjects.ProcID{Mesh: mesh, Rank: 12, Gen: 1, Index: 3}
	const name = "counter-0c8h4w2n6v1ye"
	from, alice := subjects.Anon(), must(subjects.ParseSender("u-alice.laptop"))
	add := func(s subjects.Space, subject string, parts map[string]any) {
		got, err := s.Parse(subject)
		require.NoError(t, err, "%v", parts)
		all = append(all, subjectVector{got.Kind.String(), s.String(), parts, subject})
	}
	type m = map[string]any
	var s subjects.Space
	add(s, s.Gateway("trainers", "counter", "add", from),
		m{"meshname": "trainers", "actor": "counter", "endpoint": "add", "sender": from})
	add(s, s.Gateway(mesh.String(), name, "add", alice),
		m{"meshname": mesh, "actor": name, "endpoint": "add", "sender": alice})
	add(s, s.Port(process.Actor(name).Port("add"), from),
		m{"mesh": mesh, "rank": 12, "gen": 0, "actor": name, "port": "add", "sender": from})
	add(s, s.Port(indexed.Actor("agent").Port("ping"), from),
		m{"mesh": mesh, "rank": 12, "gen": 1, "index": 3, "actor": "agent", "port": "ping", "sender": from})
	for _, where := range []string{"_", "0-_", "3-_-0-4294967295"} {
		add(s, s.Cast(mesh, name, "add", where, from),
			m{"mesh": mesh, "actor": name, "port": "add", "where": where, "sender": from})
	}
	add(s, s.HostRead(host.String(), "info", from), m{"host": host, "verb": "info", "sender": from})
	add(s, s.HostRead(subjects.Any, "info", from), m{"host": "any", "verb": "info", "sender": from})
	of := subjects.NewSender(subjects.Host.Principal(host.Label()), host.Proc().Process())
	add(s, s.HostWrite(host, "drain", from), m{"host": host, "verb": "drain", "sender": from})
	add(s, s.HostEvent(indexed, of), m{"mesh": mesh, "rank": 12, "gen": 1, "index": 3, "sender": of})
	add(s, s.Heartbeat("host", of), m{"kind": "host", "sender": of})
	by := subjects.NewSender(subjects.Proc.Principal(host.Label()), process.Process())
	add(s, s.Event("mesh", mesh.Scope(), by), m{"kind": "mesh", "mesh": mesh, "sender": by})
	add(s, s.Event("proc", process.Scope(), by),
		m{"kind": "proc", "mesh": mesh, "rank": 12, "gen": 0, "sender": by})
	add(s, s.Event("actor", indexed.Actor(name).Scope(), by),
		m{"kind": "actor", "mesh": mesh, "rank": 12, "gen": 1, "index": 3, "actor": name, "sender": by})
	add(s, s.Log(process, "stderr", by), m{"mesh": mesh, "rank": 12, "gen": 0, "stream": "stderr", "sender": by})
	add(s, s.Reply(alice, "q1.0007"), m{"sender": alice, "token": "q1.0007"})
	add(s, s.Frame(process.Process(), by), m{"mesh": mesh, "rank": 12, "gen": 0, "sender": by})
	add(s, s.Control(process.Process(), by), m{"mesh": mesh, "rank": 12, "gen": 0, "sender": by})
	add(s, s.Hint(process.Process(), "1z"), m{"mesh": mesh, "rank": 12, "gen": 0, "link": "1z"})
	other := must(subjects.NewSpace("corp.castnet", "team-a"))
	add(other, other.Gateway("demo", "counter", "add", from),
		m{"meshname": "demo", "actor": "counter", "endpoint": "add", "sender": from})
	return all
}

func refusedVectors(t *testing.T) (all []refusedVector) {
	for _, subject := range []string{
		"castnet.v2.default.cast.demo.counter.add.u-anon.x",
		"castnet.v1.default.cast.demo.counter.add",
		"castnet.v1.default.cast.demo.counter.add.u-anon.x.more",
		"castnet.v1.default.cast.*.counter.add.u-anon.x",
		"castnet.v1.default.cast._demo.counter.add.u-anon.x",
		"castnet.v1.default.k.demo.counter.add._.u-anon.x",
		"castnet.v1.default.k.demo-84dwtruwpdtop.counter.add.01.u-anon.x",
		"castnet.v1.default.p.demo-84dwtruwpdtop.3.counter.add.u-anon.x",
		"castnet.v1.default.cast.demo.counter.add.anon.x",
		"castnet.v1.default.hw.any.drain.u-anon.x",
		"castnet.v1.default.f.demo-84dwtruwpdtop.3-0-1.u-anon.x",
		"castnet.v1.default.x.demo.u-anon.x",
	} {
		_, err := subjects.Space{}.Parse(subject)
		require.Error(t, err, subject)
		all = append(all, refusedVector{subject, err.Error()})
	}
	return all
}

func tokenVectors() (all []tokenVector) {
	rules := []struct {
		name  string
		check func(string) error
		texts []string
	}{
		{"label", func(s string) error { return subjects.CheckLabel("label", s) }, []string{
			"a", "A-b_9", "0", "abcdefghijklmnopqrstuvwxyz012345", "abcdefghijklmnopqrstuvwxyz0123456", "", "_a", "-a",
			"a.b", "a b", "ä", "*", ">"}},
		{"name", func(s string) error { return subjects.CheckName("name", s) }, []string{
			"counter", "counter-0c8h4w2n6v1ye", "abcdefghijklmnopqrstuvwxyz012345-0c8h4w2n6v1ye",
			"abcdefghijklmnopqrstuvwxyz012345-0c8h4w2n6v1y", "_x"}},
		{"port", subjects.CheckPort, []string{"add", "_0z", "_", "_A", "a.b"}},
		{"where", subjects.CheckCoords, []string{"_", "0", "3-_", "_-_-_-_", "_-_-_-_-_", "01", "4294967295",
			"4294967296", "-1", "3-", ""}},
		{"sender", func(s string) error { _, err := subjects.ParseSender(s); return err }, []string{"u-anon.x",
			"u-alice.laptop", "p-rack3n07.trainers-7kd93x0b5m2qa_12-0", "h-rack3n07.trainers_12-0", "anon", "anon.x",
			"u-.x", "x-alice.x", "u-alice._inbox", "u-alice.a.b"}},
	}
	for _, r := range rules {
		for _, text := range r.texts {
			all = append(all, tokenVector{r.name, text, r.check(text) == nil})
		}
	}
	return all
}

func pointVectors(t *testing.T) (all []pointVector) {
	for _, text := range []string{"gpu=4", "host=2,gpu=4", "host=3,socket=1,gpu=2"} {
		e := must(shape.ParseExtent(text))
		for p := range e.Points() {
			all = append(all, pointVector{text, p.Rank(), pointText(p)})
		}
	}
	return all
}

// pointText is a point in the form of Castnet-Point.
func pointText(p shape.Point) string {
	var parts []string
	for i, d := range p.Extent().Dims() {
		parts = append(parts, fmt.Sprintf("%s=%d", d.Label, p.Coords()[i]))
	}
	return strings.Join(parts, ",")
}

func regionVectors(t *testing.T) (all []regionVector) {
	for _, c := range [][2]string{
		{"host=2,gpu=4", ""}, {"host=2,gpu=4", "*"}, {"host=2,gpu=4", "host=1"}, {"host=2,gpu=4", "host=0:2,gpu=*"},
		{"host=2,gpu=4", "gpu=3"}, {"host=2,gpu=4", "gpu=0:2,host=1"}, {"host=2,gpu=4", "1,0:2"},
		{"host=2,gpu=4", "gpu=::2"},
		{"host=2,gpu=4", "gpu=2:9"}, {"gpu=4", "0"},
		{"host=2,gpu=4", "host=2"}, {"host=2,gpu=4", "rack=0"}, {"host=2,gpu=4", "gpu="},
		{"host=2,gpu=4", "gpu=-1"},
		{"host=2,gpu=4", "gpu=2:2"}, {"host=2,gpu=4", "gpu=?"}, {"host=2,gpu=4", "host=0 | gpu=3"},
		{"host=2,gpu=4", "none"},
	} {
		e := must(shape.ParseExtent(c[0]))
		v := regionVector{Extent: c[0], Region: c[1]}
		r, err := shape.Select(e, c[1])
		if err != nil {
			v.Error = err.Error()
		} else {
			for _, base := range r.Ranks() {
				v.Ranks = append(v.Ranks, base)
			}
			v.Describe = shape.Describe(e, v.Ranks)
		}
		all = append(all, v)
	}
	return all
}

func formatVectors() (all []formatVector) {
	for _, c := range [][2]string{
		{"", "7b7d"}, {"", "35"}, {"", ""}, {"", "a0"}, {"", "83010203"}, {"", "fb3ff8000000000000"}, {"", "182a"},
		{"application/json", "7b7d"}, {"application/json; charset=utf-8", "35"}, {"application/cbor", "05"},
		{"Application/CBOR", "05"}, {"text/plain", "35"},
	} {
		v := formatVector{ContentType: c[0], Body: c[1]}
		f, err := wire.FormatOf(c[0], must(hex.DecodeString(c[1])))
		if err != nil {
			v.Error = err.Error()
		} else {
			v.Format = f.ContentType()
		}
		all = append(all, v)
	}
	return all
}

func valueVectors(t *testing.T) (all []valueVector) {
	for _, v := range []any{
		nil, false, true, 0, 23, 24, 255, 256, 65536, 1 << 32, 1 << 52, -1, -24, -25, -1000, 1.5, -0.25,
		3.141592653589793, 1e100,
		"", "hello", "grüße, 世界", []any{}, []any{1, 2, 3}, []any{nil, 5, nil}, map[string]any{},
		map[string]any{"a": 1, "b": []any{true, "x"}, "zz": map[string]any{"n": nil}},
	} {
		text, err := wire.JSON.Encode(v)
		require.NoError(t, err)
		all = append(all, valueVector{text, hex.EncodeToString(must(wire.CBOR.Encode(v)))})
	}
	return all
}
