package actor_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

func TestValues_matchGoldenBytes_WIRE4(t *testing.T) {
	id, err := subjects.ParseActorID("m-0123456789abc/2.1/a")
	require.NoError(t, err)
	code := 3
	event := actor.Event{
		Kind: actor.KindProc, Status: "failed", Mesh: "m-0123456789abc", Rank: 2, Gen: 1, Actor: "a", Type: "box",
		Host: "h", Reason: "r", ExitCode: &code, Signal: 9, StderrTail: []string{"x"}, At: time.Unix(1, 5).UTC(),
	}
	for name, c := range map[string]struct {
		format wire.Format
		value  any
		want   string
	}{
		"a ref": {wire.CBOR, actor.RefOf[*Box](id),
			"75" + hex.EncodeToString([]byte("m-0123456789abc/2.1/a"))},
		"no argument": {wire.CBOR, actor.None{}, "a0"},
		"an event": {wire.JSON, event,
			hex.EncodeToString([]byte(`{"kind":"proc","status":"failed","mesh":"m-0123456789abc","rank":2,"gen":1,` +
				`"actor":"a","type":"box","host":"h","reason":"r","exit_code":3,"signal":9,"stderr_tail":["x"],"at":"1970-01-01T00:00:01.000000005Z"}`))},
		"an error": {wire.CBOR, actor.EncodeError(&actor.Error{Code: 3, Text: "t", Actor: "a", Endpoint: "e"}),
			"4c" + "a4" + "0103" + "026174" + "036161" + "046165"},
	} {
		b, err := c.format.Encode(c.value)
		require.NoError(t, err)
		require.Equal(t, c.want, hex.EncodeToString(b), name)
	}
	b, err := wire.Marshal(event)
	require.NoError(t, err)
	var back actor.Event
	require.NoError(t, wire.Unmarshal(b, &back), "through a port it travels as CBOR")
	require.Equal(t, event, back)
}

// A generic type of the runtime may hold a user's value, with the limits of users.
func TestValues_longUserValueFitsAnyRuntimeType_WIRE7(t *testing.T) {
	known := actor.Maybe[[]float64]{Value: make([]float64, 100_000), OK: true}
	b, err := wire.Marshal(known)
	require.NoError(t, err)
	var back struct {
		Value []float64 `cbor:"1,keyasint"`
		OK    bool      `cbor:"2,keyasint"`
	}
	require.NoError(t, wire.Unmarshal(b, &back), "a user's list stays one list")
	var same actor.Maybe[[]float64]
	require.NoError(t, wire.Unmarshal(b, &same))
	require.Equal(t, known, same)
}

func TestValues_longestCauseChainIsWithinTheNestingLimit_WIRE7(t *testing.T) {
	e := actor.Event{Reason: "the first", StderrTail: []string{"x"}}
	for range 100 {
		e = actor.Event{StderrTail: []string{"x"}}.Because(&e)
	}
	require.Equal(t, "the first", e.RootCause().Reason)
	b, err := wire.Marshal([][]actor.Event{{e}})
	require.NoError(t, err)
	var back [][]actor.Event
	require.NoError(t, wire.Unmarshal(b, &back))
	require.Equal(t, [][]actor.Event{{e}}, back)
}

func TestCode_valuesAreStable(t *testing.T) {
	for want, sentinel := range map[int]*actor.Error{
		2: actor.ErrPanic, 3: actor.ErrNoActor, 4: actor.ErrNoEndpoint, 5: actor.ErrBadMessage,
		6: actor.ErrMailboxFull,
		7: actor.ErrStopped, 8: actor.ErrFailed, 9: actor.ErrProcDead, 10: actor.ErrNoProc, 11: actor.ErrLinkBroken,
		12: actor.ErrTooLarge, 13: actor.ErrDeadline, 15: actor.ErrUnavailable, 16: actor.ErrInvalid,
		17: actor.ErrPortGone,
	} {
		require.EqualValues(t, want, sentinel.Code, sentinel.Text)
	}
	require.EqualValues(t, 1, actor.CodeHandler)
	require.EqualValues(t, 14, actor.CodeCanceled)
}

func TestError_roundTrips(t *testing.T) {
	plain := errors.New("plain")
	for _, c := range []struct {
		err  error
		want actor.Error
	}{
		{plain, actor.Error{Code: actor.CodeHandler, Text: "plain"}},
		{actor.ErrNoActor, *actor.ErrNoActor},
		{fmt.Errorf("around: %w", actor.ErrNoActor),
			actor.Error{Code: actor.CodeNoActor, Text: "around: no such actor"}},
		{&actor.Error{Code: 99, Text: "x", Actor: "a", Endpoint: "e", Ran: true},
			actor.Error{Code: 99, Text: "x", Actor: "a", Endpoint: "e", Ran: true}},
		{errors.New("not \xff text"), actor.Error{Code: actor.CodeHandler, Text: "not \uFFFD text"}},
	} {
		require.Equal(t, &c.want, actor.FromWire(actor.EncodeError(c.err)))
	}
	broken := actor.FromWire([]byte{0xff})
	require.ErrorContains(t, broken, "cannot decode an error")
	require.False(t, broken.Undeliverable())
	require.Equal(t, "a: e: x", (&actor.Error{Text: "x", Actor: "a", Endpoint: "e"}).Error())
	require.Equal(t, "a: x", (&actor.Error{Text: "x", Actor: "a"}).Error())
	require.Equal(t, "e: x", (&actor.Error{Text: "x", Endpoint: "e"}).Error())
	require.NotErrorIs(t, actor.ErrNoActor, context.Canceled)
}

func TestError_ofALocalHandlerKeepsItsCause(t *testing.T) {
	p := alone(t)
	_, err := do.Call(t.Context(), spawn(t, p), func(*actor.Context, *Box) (int64, error) {
		return 0, fmt.Errorf("around: %w", os.ErrNotExist)
	})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Equal(t, actor.CodeHandler, asError(t, err).Code)
}

func TestEvent_decodeRefusesMalformedEvents(t *testing.T) {
	_, err := actor.DecodeEvent([]byte("{"))
	require.ErrorContains(t, err, "event:")
	e, err := actor.DecodeEvent([]byte(`{"kind":"proc","mesh":"none","rank":-1}`))
	require.NoError(t, err)
	require.False(t, e.Proc().IsValid())
	require.Equal(t, "proc ", e.String())
	e = actor.Event{Kind: "actor", Status: "failed", Mesh: "m-0123456789abc", Actor: "a", Host: "h", Reason: "r"}
	require.Equal(t, "actor m-0123456789abc/0.0/a failed on h: r", e.String())
}

func TestRegistry_refusesInvalidDefinitions(t *testing.T) {
	one := actor.NewEndpoint[*Box, int64, int64]("one")
	sum := func(a, b int64) (int64, error) { return a + b, nil }
	for want, def := range map[string]actor.Def{
		`"no dots."`:                    actor.NewType[*Box, int64]("no dots.").Define(newBox),
		`want a constructor`:            actor.NewType[*Box, int64]("box").Define(nil),
		`endpoint "one" is bound twice`: box.Define(newBox, one.Handle((*Box).add), one.Handle((*Box).add)),
		`want a method`:                 box.Define(newBox, one.Handle(nil)),
		`"bad endpoint"`: box.Define(newBox, actor.NewEndpoint[*Box, int64, int64]("bad endpoint").
			Handle((*Box).add)),
		`want a function`: box.Define(newBox,
			actor.NewEndpoint[*Box, int64]("two", actor.NewReducer[int64]("sum", nil)).Handle((*Box).add)),
		`"a sum"`: box.Define(newBox,
			actor.NewEndpoint[*Box, int64]("two", actor.NewReducer("a sum", sum)).Handle((*Box).add)),
	} {
		_, err := actor.NewRegistry(def)
		require.ErrorContains(t, err, want)
	}
	_, err := actor.NewRegistry(boxes(), boxes())
	require.ErrorContains(t, err, `"box" is defined twice`)
	r, err := actor.NewRegistry(boxes())
	require.NoError(t, err)
	require.Equal(t, []string{"box"}, r.Types())
	require.Contains(t, r.Endpoints("box"), "add(int64) int64")
	more, err := r.WithInternal(mailers())
	require.NoError(t, err)
	require.Equal(t, []string{"box"}, more.Types())
	_, err = r.WithInternal(boxes())
	require.Error(t, err)
}

func TestReducer_panicIsAnError(t *testing.T) {
	r := actor.NewReducer("bad", func(_, _ int) (int, error) { panic("no") })
	_, err := r.Fold(1, 2)
	require.EqualError(t, err, "reducer bad panicked: no")
	require.Equal(t, "bad", r.Name())
	require.True(t, actor.NewEndpoint[*Box, int, int]("e", r).Declares("bad"))
	require.False(t, add.Declares("bad"))
}

func TestAnswerType_foldsWhatAnEndpointDeclares(t *testing.T) {
	sum := actor.NewReducer("sum", func(a, b int64) (int64, error) { return a + b, nil })
	counted := actor.NewEndpoint[*Box, int64, int64]("counted", sum)
	typ := actor.NewType[*Box, int64]("counting")
	p := alone(t, typ.Define(newBox, counted.Handle((*Box).add)))
	ref, err := actor.Spawn(t.Context(), p, typ, "c", 0)
	require.NoError(t, err)
	answers, err := p.Casts().AnswerType(ref.ID().Name, "counted")
	require.NoError(t, err)
	fold, ok := answers.Fold("sum")
	require.True(t, ok)
	v, err := fold(int64(1), int64(2))
	require.NoError(t, err)
	require.EqualValues(t, 3, v)
	_, err = fold("1", int64(2))
	require.EqualError(t, err, "reducer sum folds int64, got string and int64")
	_, ok = answers.Fold("other")
	require.False(t, ok)
	_, err = p.Casts().AnswerType(ref.ID().Name, "add")
	require.ErrorContains(t, err, "has no actor")
	v, err = answers.Decode(actor.Answer{Value: int64(4)})
	require.NoError(t, err)
	require.EqualValues(t, 4, v)
}

// TestTypes_wrongTypesDoNotCompile builds testdata/wrong. The compiler must refuse every line with
// a "want" comment, with a matching message, and no other line.
func TestTypes_wrongTypesDoNotCompile(t *testing.T) {
	file := filepath.Join("testdata", "wrong", "wrong.go")
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	ctx := testkit.Soon(t)
	out, err := exec.CommandContext(ctx, "go", "build", "-gcflags=-e", "./testdata/wrong").CombinedOutput()
	require.Error(t, err, "it must not compile")
	got := map[int]string{}
	for _, m := range regexp.MustCompile(`(?m)wrong\.go:(\d+):\d+: (.*)$`).
		FindAllStringSubmatch(string(out), -1) {
		var line int
		_, err := fmt.Sscan(m[1], &line)
		require.NoError(t, err)
		got[line] += m[2]
	}
	for i, text := range strings.Split(string(source), "\n") {
		_, want, wrong := strings.Cut(text, "// want ")
		if wrong {
			require.Regexp(t, want, got[i+1], "line %d: %s", i+1, text)
		} else {
			require.Empty(t, got[i+1], "line %d: %s", i+1, text)
		}
	}
}
