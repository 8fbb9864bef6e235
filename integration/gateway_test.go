package integration

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// gatewayed is counters on 2 hosts × 2, each with a gateway, and a plain NATS client.
type gatewayed struct {
	*testing.T
	*cluster
	net   *mesh.Net
	procs mesh.ProcMesh
	nc    *nats.Conn
	cli   string
	env   []string
}

func newGatewayed(t *testing.T, labels ...string) *gatewayed {
	t.Helper()
	c := newCluster(t, labels...)
	g := &gatewayed{T: t, cluster: c, net: c.connect(t), nc: foreign(t, c), cli: natsCLI(t),
		env: c.environment(t)}
	hosts, err := g.net.AwaitHosts(t.Context(), len(labels))
	require.NoError(t, err)
	g.procs, err = hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "demo", PerHost: shape.Of("gpu", 2), Command: mesh.Command{Path: agent.Builtin},
	})
	require.NoError(t, err)
	_, err = mesh.Spawn(t.Context(), g.procs, actor.NewType[*builtinCounter, int64]("counter"), "counter", 0)
	require.NoError(t, err)
	return g
}

// subject is the subject of casts to an endpoint of the counters.
func subject(endpoint string) string {
	return "castnet.v1.default.cast.demo.counter." + endpoint + ".u-anon.x"
}

// nats runs the nats command.
func (g *gatewayed) nats(args ...string) string {
	g.Helper()
	cmd := exec.CommandContext(g.Context(), g.cli, args...)
	cmd.Env = g.env
	out, err := cmd.CombinedOutput()
	require.NoError(g, err, "%v: %s", args, out)
	return string(out)
}

// req is `nats req`, and the answers it prints.
func (g *gatewayed) req(to, body string, flags ...string) []testkit.NATSReply {
	g.Helper()
	return testkit.NATSReplies(g.nats(append([]string{"req", to, body, "--timeout", "20s"}, flags...)...))
}

// one sends a request with headers, and returns the one answer.
func (g *gatewayed) one(to, body string, headers ...string) *nats.Msg {
	g.Helper()
	m := nats.NewMsg(to)
	m.Data = []byte(body)
	for i := 0; i < len(headers); i += 2 {
		m.Header.Add(headers[i], headers[i+1])
	}
	reply, err := g.nc.RequestMsg(m, testkit.Patience)
	require.NoError(g, err)
	return reply
}

func TestGateway_answersTheNATSCommand(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	g := newGatewayed(t, "a", "b")
	whole := map[string]string{"Castnet-Asked": "4", "Castnet-Answered": "4", "Castnet-Failed": "0",
		"Castnet-Missing": "0", "Content-Type": "application/json"}
	with := func(a testkit.NATSReply) map[string]string { return a.Header }

	sum := g.req(subject("add"), "5", "-H", "Castnet-Reduce:sum")
	require.Len(t, sum, 1)
	require.Equal(t, "20", sum[0].Body)
	require.Equal(t, whole, with(sum[0]))

	all := g.req(subject("get"), "")
	require.Len(t, all, 1)
	require.Equal(t, "[5,5,5,5]", all[0].Body)
	require.Equal(t, whole, with(all[0]))

	slice := g.req(subject("add"), "1", "-H", "Castnet-Region:host=1,gpu=*")
	require.Equal(t, "[6,6]", slice[0].Body)
	require.Equal(t, "2", slice[0].Header["Castnet-Asked"])

	streamed := g.req(subject("get"), "", "-H", "Castnet-Collect:stream", "--wait-for-empty",
		"--reply-timeout=30s")
	require.Len(t, streamed, 5, "each rank, and the end")
	end := streamed[4]
	require.Equal(t, "nil body", end.Body, "as the command prints it")
	require.Equal(t, "4", end.Header["Castnet-Answered"])
	got := map[string]string{}
	for _, a := range streamed[:4] {
		got[a.Header["Castnet-Rank"]+" "+a.Header["Castnet-Point"]] = a.Body
	}
	require.Equal(t, map[string]string{"0 host=0,gpu=0": "5", "1 host=0,gpu=1": "5", "2 host=1,gpu=0": "6",
		"3 host=1,gpu=1": "6"}, got)

	began := time.Now()
	refused := g.req(subject("nope"), "", "-H", "Castnet-Collect:stream", "--wait-for-empty",
		"--reply-timeout=60s")
	require.Len(t, refused, 2, "the error, and the end")
	require.Equal(t, "404", refused[0].Header[actor.HeaderErrorCode])
	require.Equal(t, "nil body", refused[1].Body)
	require.Equal(t, "0", refused[1].Header["Castnet-Asked"])
	require.Less(t, time.Since(began), time.Minute, "no wait for further answers")

	one := g.req(subject("get"), "", "-H", "Castnet-Collect:choose", "-H", "Castnet-Region:host=1,gpu=1")
	require.Equal(t, "6", one[0].Body)
	require.Equal(t, "3", one[0].Header["Castnet-Rank"])
	require.Equal(t, "host=1,gpu=1", one[0].Header["Castnet-Point"])

	sent := g.one(subject("add"), "1", "Castnet-Collect", "send")
	require.Empty(t, sent.Data)
	require.Equal(t, "4", sent.Header.Get("Castnet-Asked"))
	require.NotContains(t, sent.Header, "Castnet-Answered")
	require.Equal(t, "26", string(g.one(subject("get"), "", "Castnet-Reduce", "sum").Data),
		"sends arrived before the later request")

	cbor := g.one(subject("add"), "\x18\x2a", "Content-Type", "application/cbor")
	require.Equal(t, "application/cbor", cbor.Header.Get("Content-Type"))
	var values []int64
	require.NoError(t, wire.Unmarshal(cbor.Data, &values))
	require.Equal(t, []int64{48, 48, 49, 49}, values)
}

func TestGateway_answersBadRequests(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	g := newGatewayed(t, "a")
	for name, bad := range map[string]struct {
		subject, body string
		headers       []string
		code, want    string
	}{
		"no such mesh": {"castnet.v1.default.cast.nope.counter.get.u-anon.x", "", nil, "404",
			`mesh "nope" does not exist; there is demo-`},
		"no such actor": {"castnet.v1.default.cast.demo.nope.get.u-anon.x", "", nil, "404",
			`actor mesh "nope" does not exist; there is agent, counter-`},
		"no such endpoint":   {subject("nope"), "", nil, "404", "no such endpoint; it has add, get"},
		"a broken subject":   {"castnet.v1.default.cast.demo.counter._get.u-anon.x", "", nil, "400", "endpoint"},
		"no JSON":            {subject("add"), `{"x"`, nil, "400", "the body is not JSON"},
		"another type":       {subject("add"), `"five"`, nil, "400", "takes int64"},
		"a region outside":   {subject("get"), "", []string{"Castnet-Region", "gpu=7"}, "400", "Castnet-Region"},
		"an unknown label":   {subject("get"), "", []string{"Castnet-Region", "rack=0"}, "400", "rack"},
		"an unknown reducer": {subject("get"), "", []string{"Castnet-Reduce", "abacus"}, "400", "abacus"},
		"a contradiction": {subject("get"), "", []string{"Castnet-Reduce", "sum", "Castnet-Collect", "stream"},
			"400", "contradicts"},
		"a deadline too long": {subject("get"), "", []string{"Castnet-TTL", "1h"}, "400", "at most 10m"},
		"an unknown header":   {subject("get"), "", []string{"Castnet-Speed", "1"}, "400", "Castnet-Speed"},
	} {
		m := g.one(bad.subject, bad.body, bad.headers...)
		require.Equal(t, bad.code, m.Header.Get(actor.HeaderErrorCode), "%s: %v", name, m.Header)
		require.Contains(t, m.Header.Get(actor.HeaderError), bad.want, name)
		require.True(t, json.Valid(m.Data), "%s: %s", name, m.Data)
		require.NotEmpty(t, m.Data, name)
	}
}

func TestGateway_namesDeadAndSilentRanks(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	g := newGatewayed(t, "a", "b")
	g.one(subject("add"), "1")
	pid := testmesh.PIDs(t, g.net, g.procs.ID().String())
	require.NoError(t, syscall.Kill(pid[1], syscall.SIGKILL)) // F30: whoever casts meanwhile is told
	for {
		m := g.one(subject("get"), "", "Castnet-Reduce", "sum")
		if m.Header.Get("Castnet-Failed") == "1" {
			require.Equal(t, "3", string(m.Data), "%v", m.Header)
			require.Equal(t, "host=0,gpu=1", m.Header.Get("Castnet-Failed-Region"))
			require.Contains(t, m.Header.Get("Castnet-Partial"), "the proc is gone")
			break
		}
		require.Equal(t, "4", m.Header.Get("Castnet-Answered"), "%v %s", m.Header, m.Data)
	}
	require.Equal(t, "[1,null,1,1]", string(g.one(subject("get"), "").Data))

	proctest.Suspend(t, pid[3])
	defer proctest.Resume(t, pid[3])
	streamed := g.req(subject("get"), "", "-H", "Castnet-Collect:stream", "-H", "Castnet-TTL:4s",
		"--wait-for-empty", "--reply-timeout=30s")
	require.Len(t, streamed, 5)
	end := streamed[4].Header
	require.Equal(t, "1", end["Castnet-Missing"])
	require.Equal(t, "host=1,gpu=1", end["Castnet-Missing-Region"])
	require.Equal(t, "host=0,gpu=1", end["Castnet-Failed-Region"])
	i := slices.IndexFunc(streamed, func(a testkit.NATSReply) bool { return a.Header["Castnet-Rank"] == "3" })
	require.Equal(t, "504", streamed[i].Header[actor.HeaderErrorCode])
	require.NotEmpty(t, streamed[i].Body)

	none := g.one(subject("get"), "", "Castnet-Region", "host=1,gpu=1", "Castnet-TTL", "3s")
	require.Equal(t, "504", none.Header.Get(actor.HeaderErrorCode), "%v", none.Header)
	require.Equal(t, "1", none.Header.Get("Castnet-Missing"))
}

// holder returns the gateway that accepted a cast, from the claims on the bus.
func holder(t *testing.T, nc *nats.Conn) func() (id string) {
	t.Helper()
	sub, err := nc.SubscribeSync("castnet.v1.default.hb.claim.*.*")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	return func() string {
		for {
			m, err := sub.NextMsg(testkit.Patience)
			require.NoError(t, err)
			if strings.Contains(string(m.Data), `"claim"`) {
				return m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
			}
		}
	}
}

// hostOf is a gateway's host, by its own report.
func (g *gatewayed) hostOf(id string) string {
	g.Helper()
	m, err := g.nc.Request("$SRV.PING.castnet-gateway."+id, nil, testkit.Patience)
	require.NoError(g, err)
	var said struct{ Metadata map[string]string }
	require.NoError(g, json.Unmarshal(m.Data, &said))
	return said.Metadata["host"]
}

func TestGateway_anotherAnswersWhenOneDiesDuringACast(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	for _, collect := range []string{"stream", "gather", "reduce"} {
		t.Run(collect, func(t *testing.T) {
			t.Parallel()
			diesDuringACast(t, collect)
		})
	}
}

func diesDuringACast(t *testing.T, collect string) {
	labels := []string{"a", "b", "c"}
	g := newGatewayed(t, labels...)
	g.one(subject("add"), "1")
	pid := testmesh.PIDs(t, g.net, g.procs.ID().String())
	claimed := holder(t, g.nc)
	inbox := nats.NewInbox()
	replies, err := g.nc.SubscribeSync(inbox)
	require.NoError(t, err)
	for _, p := range pid {
		proctest.Suspend(t, p) // nobody answers, so the cast is under way
	}
	asking := nats.NewMsg(subject("add"))
	asking.Reply, asking.Data = inbox, []byte("1")
	asking.Header.Set("Castnet-Collect", collect)
	if collect == "reduce" {
		asking.Header.Set("Castnet-Reduce", "sum")
	}
	require.NoError(t, g.nc.PublishMsg(asking))
	id := claimed()
	host := g.hostOf(id)
	at := slices.Index(labels, host)
	g.nodes[at].kill(t)
	m, err := replies.NextMsg(testkit.Patience)
	require.NoError(t, err)
	require.Equal(t, "503", m.Header.Get(actor.HeaderErrorCode), "%v", m.Header)
	require.Equal(t, "gateway "+id+" died during the cast: the cast may have run",
		m.Header.Get(actor.HeaderError))
	require.NotEmpty(t, m.Data)
	if collect == "stream" {
		end, err := replies.NextMsg(testkit.Patience)
		require.NoError(t, err)
		require.Empty(t, end.Data, "the end of a stream")
		require.NotContains(t, end.Header, "Castnet-Asked", "the coverage is not known")
	}
	_, err = replies.NextMsg(3 * time.Second)
	require.ErrorIs(t, err, nats.ErrTimeout, "one of the two that live answers")
	for rank, p := range pid {
		if rank/2 != at { // the others went with their host
			require.NoError(t, syscall.Kill(p, syscall.SIGCONT))
		}
	}
	m = g.one(subject("get"), "", "Castnet-Region", "host="+strconv.Itoa((at+1)%3), "Castnet-Reduce", "count")
	require.Equal(t, "2", string(m.Data), "the others go on: %v", m.Header)
}

func TestDiscovery_natsCommandListsHostsProcsAndGateways(t *testing.T) {
	t.Parallel()
	g := newGatewayed(t, "a", "b")
	micro := func(args ...string) string {
		return g.nats(append([]string{"--timeout", testkit.Patience.String(), "micro"}, args...)...)
	}
	// The command ends its list after 300 ms without an answer, so the test waits for the full length.
	want := map[string]int{"castnet-host a": 1, "castnet-host b": 1, "castnet-gateway gateway": 2,
		"castnet-proc " + g.procs.ID().Label(): 4}
	got := map[string]int{}
	for _, a := range g.req("$SRV.PING", "", "--reply-timeout", testkit.Patience.String(), "--replies", "8") {
		var service struct{ Name, ID string }
		require.NoError(t, json.Unmarshal([]byte(a.Body), &service), a.Body)
		label, _, _ := strings.Cut(service.ID, "-")
		got[service.Name+" "+label]++
	}
	require.Equal(t, want, got)
	list := micro("ls")
	require.Regexp(t, `│ (a|b|gateway|demo)-`, list)
	info := micro("info", "castnet-gateway")
	for _, want := range []string{
		"castnet.v1.default.cast." + g.procs.ID().String() + ".counter-", ".add.*.*", "shape: host=2,gpu=2",
		"in: int64", "out: int64",
		"direction: in,out",
	} {
		require.Contains(t, info, want)
	}
	require.Contains(t, micro("info", "castnet-proc"), "p."+g.procs.ID().String())
	require.Contains(t, micro("info", "castnet-host"), ".info.*")
	g.one(subject("get"), "")
	require.Contains(t, micro("stats", "castnet-gateway"), "cast")
	require.Contains(t, micro("stats", "castnet-proc"), "get")
}

func TestDiscovery_sendsNoCommandToAnotherProcess(t *testing.T) {
	t.Parallel()
	g := newGatewayed(t, "a", "b")
	host, err := g.procs.Host(0)
	require.NoError(t, err)
	stop := "castnet.v1.default.hw." + host.String() + ".stop-all.u-anon.x"
	commands, err := g.nc.SubscribeSync(stop)
	require.NoError(t, err)
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		require.NoError(t, g.nc.PublishRequest("$SRV."+verb, stop, nil))
	}
	// Each service takes its requests in order.
	require.Len(t, g.req("$SRV.PING", "", "--reply-timeout", testkit.Patience.String(), "--replies", "8"), 8)
	m, err := commands.NextMsg(time.Second)
	require.ErrorIs(t, err, nats.ErrTimeout, "%v", m)
}
