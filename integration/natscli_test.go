package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// builtinCounter is the built-in counter of every hostd.
type builtinCounter struct{}

// makeNATS makes make build the `nats` command, once for all tests.
var makeNATS = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("make", "-C", "..", "bin/nats").CombinedOutput()
})

// natsCLI is the `nats` command, as this repository pins it.
func natsCLI(t *testing.T) string {
	t.Helper()
	out, err := makeNATS()
	require.NoError(t, err, "%s", out)
	path, err := filepath.Abs("../bin/nats")
	require.NoError(t, err)
	return path
}

// caster casts to counters, 2 hosts × 2, with the nats command.
type caster struct {
	*testing.T
	cli     string
	env     []string
	subject string // up to the actor
	actor   string
}

func newCaster(t *testing.T) *caster {
	t.Helper()
	c := newCluster(t, "a", "b")
	hosts, err := c.connect(t).AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	procs, err := hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "demo", PerHost: shape.Of("gpu", 2), Command: mesh.Command{Path: agent.Builtin},
	})
	require.NoError(t, err)
	m, err := mesh.Spawn(t.Context(), procs, actor.NewType[*builtinCounter, int64]("counter"), "counter", 0)
	require.NoError(t, err)
	return &caster{t, natsCLI(t), c.environment(t), "castnet.v1.default.k." + procs.ID().String(), m.Name()}
}

// cast requests a number of answers and returns them by rank, each rank once.
func (c *caster) cast(endpoint, where, body string, replies int, flags ...string) map[int]testkit.NATSReply {
	c.Helper()
	return c.castTo(c.actor, endpoint, where, body, replies, flags...)
}

func (c *caster) castTo(to, endpoint, where, body string, replies int, flags ...string) map[int]testkit.NATSReply {
	c.Helper()
	by := map[int]testkit.NATSReply{}
	for _, a := range testkit.NATSReplies(c.request(to, endpoint, where, body, replies, flags...)) {
		rank, err := strconv.Atoi(a.Header[actor.HeaderRank])
		require.NoError(c, err, "%v", a)
		require.NotContains(c, by, rank)
		by[rank] = a
	}
	require.Len(c, by, replies)
	return by
}

// request runs `nats request` and returns its output.
func (c *caster) request(to, endpoint, where, body string, replies int, flags ...string) string {
	c.Helper()
	args := []string{"request", "--timeout", testkit.Patience.String(), "--reply-timeout",
		testkit.Patience.String(), "--replies", strconv.Itoa(replies)}
	args = append(append(args, flags...), fmt.Sprintf("%s.%s.%s.%s.u-anon.x", c.subject, to, endpoint, where), body)
	cmd := exec.CommandContext(c.Context(), c.cli, args...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	require.NoError(c, err, "%v: %s", cmd.Args, out)
	return string(out)
}

func TestNATSCommand_castsToAllRanksAndToASlice(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	c := newCaster(t)
	for rank, a := range c.cast("add", "_-_", "5", 4, "-H", "Rank:7") {
		require.Equal(t, "5", a.Body, "rank %d", rank)
		require.Equal(t, map[string]string{actor.HeaderContentType: "application/json",
			actor.HeaderRank: strconv.Itoa(rank)}, a.Header)
	}
	for where, ranks := range map[string][]int{"1-_": {2, 3}, "_-0": {0, 2}, "0-1": {1}} {
		got := c.cast("get", where, "", len(ranks))
		for _, rank := range ranks {
			require.Equal(t, "5", got[rank].Body, "rank %d of %s", rank, where)
		}
	}
	region := c.cast("get", "_-_", "", 2, "-H", "Castnet-Region:gpu=1")
	require.Equal(t, []string{"5", "5"}, []string{region[1].Body, region[3].Body},
		"ranks of a region without a token")
	require.Contains(t, c.request(c.actor, "get", "_-_", "", 4, "-H", "Castnet-Reduce:sum"),
		"or a cast through the gateway")
	for rank, a := range c.cast("add", "0-_", "\x18\x2a", 2, "-H", "Content-Type:application/cbor") {
		require.Equal(t, "\x18\x2f", a.Body, "CBOR of 5 + 42, rank %d", rank)
		require.Equal(t, "application/cbor", a.Header[actor.HeaderContentType])
	}
	for rank, a := range c.cast("get", "_-_", "", 4) {
		require.Equal(t, []string{"47", "5"}[rank/2], a.Body, "rank %d", rank)
	}
	if os.Getenv(listenerVariable) != "" {
		return // the server cannot say that nobody is there
	}
	for _, nobody := range []string{"_", "2-_", "_-_-_"} {
		require.Contains(t, c.request(c.actor, "get", nobody, "", 1), "No responders are available", nobody)
	}
}

func TestNATSCommand_errorsUseTheRequestsFormat(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	c := newCaster(t)
	const asCBOR = "Content-Type:application/cbor"
	for _, bad := range []struct{ actor, endpoint, body, header, code, want string }{
		{c.actor, "add", `{"x"`, "", "400", "decode JSON as int64: unexpected end of JSON input"},
		{c.actor, "add", `"five"`, "", "400", "takes int64: decode JSON as int64: json: cannot unmarshal string"},
		{c.actor, "add", "5 5", "", "400", "takes int64: decode JSON as int64"},
		{c.actor, "add", "\x18", asCBOR, "400", "takes int64: decode"},
		{c.actor, "add", "\x64five", asCBOR, "400", "takes int64: decode"},
		{c.actor, "add", "5", "Content-Type:text/plain", "400",
			`content type "text/plain": want application/json or application/cbor`},
		{c.actor, "sub", "5", "", "404", "no such endpoint; it has add, get, reset"},
		{"nobody", "add", "5", "", "404", "has no such actor"},
	} {
		var flags []string
		if bad.header != "" {
			flags = []string{"-H", bad.header}
		}
		for rank, a := range c.castTo(bad.actor, bad.endpoint, "_-_", bad.body, 4, flags...) {
			require.Equal(t, bad.code, a.Header[actor.HeaderErrorCode], "%q, rank %d: %v", bad.body, rank, a)
			require.Contains(t, a.Header[actor.HeaderError], bad.want, "%q, rank %d", bad.body, rank)
			var said map[string]any
			if bad.header == asCBOR {
				require.Equal(t, "application/cbor", a.Header[actor.HeaderContentType])
				require.NoError(t, wire.CBOR.Decode([]byte(a.Body), &said))
			} else {
				require.Equal(t, "application/json", a.Header[actor.HeaderContentType])
				require.NoError(t, json.Unmarshal([]byte(a.Body), &said), a.Body)
			}
			require.Contains(t, said["error"], bad.want)
			require.Equal(t, bad.endpoint, said["endpoint"])
		}
	}
	for rank, a := range c.cast("get", "_-_", "", 4) {
		require.Equal(t, "0", a.Body, "rank %d counted a bad message", rank)
	}
}
