package builtin

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// served spawns a plain actor for a subject of a program. reply answers each message; nil answers
// none.
func served(t *testing.T, subject string, reply func(bus.Msg) *bus.Msg) (*actortest.Rig,
	actor.Ref[*subjectProxy]) {
	t.Helper()
	rig := actortest.New(t, Defs()...)
	other := rig.Proc().Bus().Control() // a connection that hears what the proc says
	_, err := other.Subscribe(subject, func(m bus.Msg) {
		if r := reply(m); r != nil {
			r.Subject = m.Reply
			_ = other.PublishMsg(*r)
		}
	})
	require.NoError(t, err)
	return rig, actortest.Spawn(rig, subjectProxyType, subjectProxyParams{subject})
}

// saying replies the same to each message.
func saying(body string, header ...string) func(bus.Msg) *bus.Msg {
	h := bus.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return func(bus.Msg) *bus.Msg { return &bus.Msg{Header: h, Data: []byte(body)} }
}

func TestAsk_carriesAnyJSON_BLT3(t *testing.T) {
	rig, ref := served(t, "work", func(m bus.Msg) *bus.Msg { return &bus.Msg{Data: m.Data} })
	for _, v := range []any{
		nil, true, "grüße <&>", int64(0), int64(math.MinInt64), int64(math.MaxInt64), 0.5, -1e300,
		[]any{int64(1), []any{}, "x"}, map[string]any{"a": map[string]any{"b": nil}},
	} {
		got, err := request.Call(rig.Context(), ref, v)
		require.NoError(t, err, "%v", v)
		require.Equal(t, v, got)
	}
	got, err := request.Call(rig.Context(), ref, struct {
		N int `json:"n"`
	}{5})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"n": int64(5)}, got, "a local value has the form of a remote one")
}

func TestAsk_carriesCallerActorTraceAndDeadline(t *testing.T) {
	seen := make(chan bus.Msg, 1)
	rig, ref := served(t, "work.0", func(m bus.Msg) *bus.Msg {
		seen <- m
		return &bus.Msg{Data: []byte("1")}
	})
	ctx, cancel := context.WithTimeout(rig.Context(), actortest.Timeout)
	defer cancel()
	trace, err := actor.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.NoError(t, err)
	_, err = request.Call(actor.WithTrace(ctx, trace), ref, 5)
	require.NoError(t, err)
	m := <-seen
	require.Equal(t, trace.String(), m.Header.Get("traceparent"))
	require.Equal(t, "5", string(m.Data))
	require.Equal(t, "application/json", m.Header.Get("Content-Type"))
	require.Equal(t, "0", m.Header.Get("Castnet-Rank"))
	require.Equal(t, []string{""}, m.Header["Castnet-Point"], "this one is in no mesh")
	require.Equal(t, rig.Proc().ID().String()+"/client", m.Header.Get("Castnet-From"))
	ttl, err := time.ParseDuration(m.Header.Get("Castnet-TTL"))
	require.NoError(t, err)
	require.Greater(t, ttl, time.Duration(0))
	require.LessOrEqual(t, ttl, actortest.Timeout)
}

func TestAsk_refusesAnInvalidReply_BLT3(t *testing.T) {
	for reply, want := range map[string]string{
		"":                      "a reply of work: it is empty: want JSON, null for no value",
		" \n":                   "a reply of work: it is empty",
		"five":                  "a reply of work: want JSON: invalid character",
		`{"a":`:                 "a reply of work: want JSON: unexpected EOF",
		"1 2":                   "more data after the first",
		"\"\xff\"":              "the text is not UTF-8",
		"9223372036854775808":   "9223372036854775808 overflows Go's int64",
		"[1e999]":               "the number 1e999 does not fit into 64 bits",
		strings.Repeat("[", 40): "want JSON",
		strings.Repeat("[", 40) + strings.Repeat("]", 40): "nested",
	} {
		rig, ref := served(t, "work", saying(reply))
		_, err := request.Call(rig.Context(), ref, 1)
		require.ErrorContains(t, err, want, "%q", reply)
	}
}

func TestAsk_returnsTheErrorOfTheProgram(t *testing.T) {
	for want, header := range map[string][]string{
		"work: out of paper (code 507)": {"Nats-Service-Error", "out of paper", "Nats-Service-Error-Code", "507"},
		"work: out of paper":            {"Nats-Service-Error", "out of paper"},
		"(code 507)":                    {"Nats-Service-Error-Code", "507"},
	} {
		rig, ref := served(t, "work", saying("5", header...))
		_, err := request.Call(rig.Context(), ref, 1)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, &actor.Error{Code: actor.CodeHandler})
	}
}

func TestAsk_reportsThatNoProgramServes(t *testing.T) {
	rig := actortest.New(t, Defs()...)
	ref := actortest.Spawn(rig, subjectProxyType, subjectProxyParams{"work.{rank}"})
	_, err := request.Call(rig.Context(), ref, 1)
	require.ErrorContains(t, err, "no service listens on work.0")
	require.ErrorIs(t, err, &actor.Error{Code: actor.CodeHandler})

	require.NoError(t, request.Send(rig.Context(), ref, 1),
		"without a waiting caller the error does not fail the actor")
	_, err = request.Call(rig.Context(), ref, 1)
	require.ErrorContains(t, err, "no service listens on work.0", "it lives")
}

func TestAsk_silentProgramTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig, ref := served(t, "work", func(bus.Msg) *bus.Msg { return nil })
		for _, within := range []time.Duration{time.Second, time.Minute, 0} {
			ctx, cancel := rig.Context(), func() {}
			if within > 0 {
				ctx, cancel = context.WithTimeout(ctx, within)
			}
			start := time.Now()
			_, err := request.Call(ctx, ref, 1)
			cancel()
			require.ErrorIs(t, err, actor.ErrDeadline)
			if within == 0 {
				within = actor.DefaultDeadline
			}
			require.Equal(t, within, time.Since(start).Round(time.Millisecond))
		}
	})
}

func TestAsk_endsWithTheActor(t *testing.T) {
	asked := make(chan struct{}, 1)
	rig, ref := served(t, "work", func(bus.Msg) *bus.Msg {
		asked <- struct{}{}
		return nil
	})
	done := make(chan error, 1)
	go func() {
		_, err := request.Call(rig.Context(), ref, 1)
		done <- err
	}()
	<-asked
	rig.Proc().KillActor(ref.ID().Name, "the test")
	err := <-done
	require.ErrorIs(t, err, actor.ErrFailed)
	require.ErrorContains(t, err, "killed: the test")
	rig.ExpectFailure(ref)
}

func TestAsk_refusesAMessageWithoutAJSONForm_BLT3(t *testing.T) {
	rig, ref := served(t, "work", saying("1"))
	for want, v := range map[string]any{
		"the number NaN":           math.NaN(),
		"the number -Inf":          []any{math.Inf(-1)},
		"a byte string of 3 bytes": map[string]any{"image": []byte("abc")},
		"UTF-8":                    "\xff",
		"encode":                   func() {},
	} {
		for _, call := range []func() error{
			func() error { _, err := request.Call(rig.Context(), ref, v); return err },
			func() error { _, err := publish.Call(rig.Context(), ref, v); return err },
		} {
			err := call()
			require.ErrorContains(t, err, want)
			require.ErrorIs(t, err, actor.ErrBadMessage)
		}
	}
}

func TestAsk_refusesAMessageAboveTheServersLimit(t *testing.T) {
	rig, ref := served(t, "work", saying("1"))
	_, err := request.Call(rig.Context(), ref, strings.Repeat("x", rig.Proc().Bus().Data().MaxPayload()))
	require.ErrorIs(t, err, actor.ErrTooLarge)
}

func TestTell_publishesWithoutWaiting(t *testing.T) {
	seen := make(chan bus.Msg, 1)
	rig, ref := served(t, "work", func(m bus.Msg) *bus.Msg {
		seen <- m
		return nil
	})
	require.NoError(t, publish.Send(rig.Context(), ref, []int{1, 2}))
	m := <-seen
	require.Equal(t, "[1,2]", string(m.Data))
	require.Empty(t, m.Reply)
	require.NotContains(t, m.Header, "Castnet-TTL", "it has no deadline")

	rig = actortest.New(t, Defs()...)
	_, err := publish.Call(rig.Context(), actortest.Spawn(rig, subjectProxyType, subjectProxyParams{"work"}), 1)
	require.NoError(t, err, "a missing listener is no error")
}

func TestSubject_refusesReservedOnes_BLT5(t *testing.T) {
	rig := actortest.New(t, Defs()...)
	for subject, want := range map[string]string{
		"":                                     `want parameters such as {"subject":"work.{rank}"}`,
		"work.*":                               "has a wildcard: want one subject",
		"work.>":                               "has a wildcard",
		"work.":                                "has an empty token",
		".work":                                "has an empty token",
		"work..{rank}":                         "has an empty token",
		"work {rank}":                          "has a space",
		"work\r\nPUB":                          "control character",
		"work\x00":                             "control character",
		"work\u00a0x":                          "has a space",
		"work.\xff":                            "UTF-8",
		"work.{host}":                          "want {rank}, {mesh} and {actor} at most",
		"work.{rank":                           "has braces",
		"castnet.v1.default.hr.any.x":          "castnet's own: want one outside of castnet.",
		"castnet.{rank}":                       "castnet's own",
		"$SYS.REQ.{rank}":                      "neither with $ nor with _",
		"_INBOX.{rank}":                        "neither with $ nor with _",
		strings.Repeat("work.", 60) + "{rank}": "has 301 bytes: want at most 256",
	} {
		_, err := actor.Spawn(rig.Context(), rig.Proc(), subjectProxyType, "plain", subjectProxyParams{subject})
		require.ErrorContains(t, err, want, "%q", subject)
	}
}

func TestSubject_expandsItsPlaceholders(t *testing.T) {
	rig := actortest.New(t, Defs()...)
	ref := actortest.Spawn(rig, subjectProxyType, subjectProxyParams{"a.{mesh}.{rank}.{actor}.{rank}"})
	_, err := request.Call(rig.Context(), ref, 1)
	require.ErrorContains(t, err, "no service listens on a."+rig.Proc().ID().Mesh.String()+".0."+
		ref.ID().Name+".0")
}

func TestCheckSubject_admitsOnlyPlainApplicationSubjects(t *testing.T) {
	own, err := subjects.NewSpace("corp.castnet", "team-a")
	require.NoError(t, err)
	require.NotEmpty(t, checkSubject("corp.castnet.v1.team-a.x", own))
	require.Empty(t, checkSubject("corp.work", own))
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-c.*>$_ {}\n]{0,6}`).Draw(t, "subject")
		if checkSubject(s, subjects.Space{}) == "" {
			require.Regexp(t, `^[a-c][a-c_$]*(\.[a-c_$]+)*$`, s)
		}
	})
}

func TestFromJSON_readsTheOutputOfToJSON(t *testing.T) {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(),
		rapid.String().AsAny())
	value := rapid.OneOf(leaf, rapid.SliceOf(leaf).AsAny(), rapid.MapOf(rapid.String(), leaf).AsAny())
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "v")
		data, err := toJSON(v)
		require.NoError(t, err)
		require.True(t, json.Valid(data))
		got, err := fromJSON(data)
		require.NoError(t, err)
		want, err := wire.Marshal(v)
		require.NoError(t, err)
		again, err := wire.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, want, again)
	})
}

func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{"", "1", "1.0", `{"a":[null]}`, "[1e400]", "1 2", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := fromJSON(data); err == nil {
			_, err = toJSON(v)
			require.NoError(t, err)
		}
	})
}
