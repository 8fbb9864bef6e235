package actor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// ask sends a request as a plain NATS client does.
func (f forger) ask(t testing.TB, to subjects.PortID, contentType string, body []byte) bus.Msg {
	t.Helper()
	m := bus.Msg{Subject: f.space.Port(to, subjects.Anon()), Data: body, Header: bus.Header{}}
	if contentType != "" {
		m.Header.Set(actor.HeaderContentType, contentType)
	}
	reply, err := f.Data().Request(testkit.Soon(t), m)
	require.NoError(t, err)
	return reply
}

func TestForeign_requestIsAnsweredInItsFormat_DEL10(t *testing.T) {
	srv := bustest.Server(t)
	p, f := start(t, srv, "alone"), newForger(t, srv)
	to := spawn(t, p).ID().Port("add")
	five, err := wire.Marshal(5)
	require.NoError(t, err)
	for _, c := range []struct {
		contentType string
		body        []byte
		wantType    string
		want        string
	}{
		{"", []byte("1"), "application/json", "1"},
		{"application/json", []byte(" 2 "), "application/json", "3"},
		{"application/cbor", five, "application/cbor", "\x08"},
	} {
		m := f.ask(t, to, c.contentType, c.body)
		require.Empty(t, m.Header.Get(actor.HeaderError))
		require.Equal(t, c.wantType, m.Header.Get(actor.HeaderContentType))
		require.Equal(t, c.want, string(m.Data))
	}
	m := f.ask(t, spawn(t, p).ID().Port("history"), "", nil)
	require.Equal(t, "null", string(m.Data), "an endpoint without arguments can be asked with nothing")
	require.EqualValues(t, 4, p.Stats().Foreign)
}

func TestForeign_requestWithMalformedSenderIsAnswered_DEL10(t *testing.T) {
	srv := bustest.Server(t)
	p, f := start(t, srv, "alone"), newForger(t, srv)
	ref := spawn(t, p)
	subject := strings.TrimSuffix(f.space.Port(ref.ID().Port("add"), subjects.Anon()), "x") + "no$label"
	m, err := f.Data().Request(testkit.Soon(t), bus.Msg{Subject: subject, Data: []byte("1")})
	require.NoError(t, err)
	require.Equal(t, "400", m.Header.Get(actor.HeaderErrorCode))
	require.Contains(t, m.Header.Get(actor.HeaderError), "no$label")
	require.NotEmpty(t, m.Data)
}

func TestForeign_badRequestGetsErrorHeaderAndBody_DEL10(t *testing.T) {
	srv := bustest.Server(t)
	p, f := start(t, srv, "alone"), newForger(t, srv)
	ref := spawn(t, p)
	for _, c := range []struct {
		name, endpoint, contentType string
		body                        []byte
		code, text                  string
	}{
		{ref.ID().Name, "add", "", []byte(`{"n":`), "400", "takes int64: decode JSON as int64"},
		{ref.ID().Name, "add", "", []byte(`"text"`), "400", "takes int64"},
		{ref.ID().Name, "add", "application/cbor", []byte{0x61}, "400", "takes int64"},
		{ref.ID().Name, "add", "", []byte{0x9f, 0x01, 0xff}, "400", "takes int64"},
		{ref.ID().Name, "add", "text/plain", []byte("1"), "400", `content type "text/plain"`},
		{ref.ID().Name, "absent", "", nil, "404", "no such endpoint"},
		{"nobody", "add", "", nil, "404", "no such actor"},
		{ref.ID().Name, "fail", "", []byte(`"bad\nluck"`), "500", "bad luck"},
		{ref.ID().Name, "big", "", []byte("2000000"), "413", "message too large"},
		{ref.ID().Name, "boom", "", []byte(`"crash"`), "500", "panicked: crash"},
		{ref.ID().Name, "add", "", []byte("1"), "410", "the actor failed"},
	} {
		m := f.ask(t, p.ID().Actor(c.name).Port(c.endpoint), c.contentType, c.body)
		require.Equal(t, c.code, m.Header.Get(actor.HeaderErrorCode), c.text)
		require.Contains(t, m.Header.Get(actor.HeaderError), c.text)
		require.NotEmpty(t, m.Data, "an empty message ends a stream")
		format, err := wire.FormatOf(m.Header.Get(actor.HeaderContentType), m.Data)
		require.NoError(t, err)
		var body map[string]any
		require.NoError(t, format.Decode(m.Data, &body))
		require.Contains(t, body["error"], strings.ReplaceAll(c.text, "bad luck", "bad\nluck"))
	}
}

func TestForeign_floodingSenderGetsAnError_DEL10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		p, f := start(t, srv, "alone"), newForger(t, srv)
		to := spawn(t, p).ID().Port("add")
		for p.Foreign().Admit(subjects.Anon()) == nil {
		}
		for _, contentType := range []string{"", "text/plain"} {
			m := f.ask(t, to, contentType, []byte("1"))
			require.Equal(t, "429", m.Header.Get(actor.HeaderErrorCode), m.Header.Get(actor.HeaderError))
			require.Contains(t, m.Header.Get(actor.HeaderError), "sends more than 20000 messages a second")
		}
		another, err := subjects.ParseSender("u-anon.another")
		require.NoError(t, err)
		require.Nil(t, p.Foreign().Admit(another))
		time.Sleep(time.Millisecond) // virtual
		require.Equal(t, "1", string(f.ask(t, to, "", []byte("1")).Data), "nothing of it was handled")
	})
}

func TestForeign_errorTextIsBounded_DEL10(t *testing.T) {
	srv := bustest.Server(t)
	p, f := start(t, srv, "alone"), newForger(t, srv)
	m := f.ask(t, spawn(t, p).ID().Port("fail"), "", []byte(`"`+strings.Repeat("ü", 100_000)+`"`))
	require.Less(t, len(m.Header.Get(actor.HeaderError)), 10_000)
	require.True(t, json.Valid(m.Data))
}

func TestForeign_replySubjectOfAnotherClientIsRefused_DEL10(t *testing.T) {
	srv := bustest.Server(t)
	p, f := start(t, srv, "alone"), newForger(t, srv)
	ref := spawn(t, p)
	alice, err := subjects.ParseSender("u-alice.x")
	require.NoError(t, err)
	to := f.space.Port(ref.ID().Port("add"), alice)
	heard := make(chan string, 16)
	for _, subject := range []string{"castnet.>", "theirs.>"} {
		_, err := f.Control().Subscribe(subject, func(m bus.Msg) {
			if m.Subject != to && !strings.Contains(m.Subject, ".ev.") {
				heard <- m.Subject
			}
		})
		require.NoError(t, err)
	}
	token := "castnet.v1.default.r."
	for _, reply := range []string{
		"castnet.v1.default.p.x", "castnet.v1.other.r.u-alice.x.1", "castnet.", token + "u-bob.x.1",
		token + "u-alice.y.1", token + "o-alice.x.1", token + "u-alice.x", "$SYS.x", "$JS.API.x",
		f.space.Control(p.ID().Process(), alice),
	} {
		require.NoError(t, f.Data().PublishMsg(bus.Msg{Subject: to, Reply: reply, Data: []byte("1")}))
	}
	for _, reply := range []string{token + "u-alice.x.1", "theirs.1"} {
		require.NoError(t, f.Data().PublishMsg(bus.Msg{Subject: to, Reply: reply, Data: []byte("1")}))
		require.Equal(t, reply, testkit.Next(t, heard))
	}
	require.Empty(t, heard)
	require.EqualValues(t, 10, p.Stats().Malformed)
	n, err := add.Call(t.Context(), ref, 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "a message with a forbidden reply is not handled")
}

func TestForeign_sendIsHandledAtMostOnce_DEL10(t *testing.T) {
	srv := bustest.Server(t)
	p, f := start(t, srv, "alone"), newForger(t, srv)
	ref := spawn(t, p)
	f.send(t, ref.ID().Port("add"), subjects.Anon(), []byte("3"))
	f.send(t, ref.ID().Port("add"), subjects.Anon(), []byte("no number"))
	testkit.Until(t, "both came", func() bool { info, _ := p.Actor(ref.ID().Name); return info.Handled == 2 })
	n, err := add.Call(t.Context(), ref, 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	require.EqualValues(t, 1, p.Stats().Undeliverable)
}

func TestForeign_sendErrorDoesNotFailTheActor_ACT4(t *testing.T) {
	srv := bustest.Server(t)
	p, f := start(t, srv, "alone"), newForger(t, srv)
	ref := spawn(t, p)
	f.send(t, ref.ID().Port("fail"), subjects.Anon(), []byte(`"on purpose"`))
	testkit.Until(t, "it came", func() bool { info, _ := p.Actor(ref.ID().Name); return info.Handled == 1 })
	n, err := add.Call(t.Context(), ref, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}
