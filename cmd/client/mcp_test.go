package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/casting"
	"github.com/castnet-io/castnet/cmd/client/internal/doctor"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/cmd/client/internal/logs"
	"github.com/castnet-io/castnet/cmd/client/internal/mcpserver"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// agentOf starts `castnet mcp` as the program of an AI agent does.
func (c *cluster) agentOf(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"mcp"}, args...)...)
	cmd.Env = c.env
	var stderr testkit.Transcript
	cmd.Stderr = &stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	s, err := client.Connect(testkit.Soon(t), &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(t, err, stderr.String())
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.Empty(t, stderr.String())
	})
	return s
}

// use calls a tool, and returns its document and its notes.
func use(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) (
	document, notes string, fails bool,
) {
	t.Helper()
	r, err := s.CallTool(testkit.Soon(t), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(t, err)
	return read(t, r)
}

// read is the document of a result, and its notes.
func read(t *testing.T, r *mcp.CallToolResult) (document, notes string, fails bool) {
	t.Helper()
	var all []string
	for _, content := range r.Content {
		text, ok := content.(*mcp.TextContent)
		require.True(t, ok)
		all = append(all, text.Text)
	}
	if len(all) == 0 || !json.Valid([]byte(all[0])) {
		return "", strings.Join(all, "\n"), r.IsError
	}
	return all[0], strings.Join(all[1:], "\n"), r.IsError
}

// answer is the document of a tool that succeeds.
func answer[T any](t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) T {
	t.Helper()
	document, notes, fails := use(t, s, tool, arguments)
	require.False(t, fails, "%s: %s", tool, notes)
	return decode[T](t, document)
}

// An agent with the tools alone finds out why a rank failed.
func TestMCP_anAgentFindsWhyARankFailed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	_, up := c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	c.ok(t, "cast", "demo", "talker", "grumble", `"the checkpoint is torn"`)
	c.kill(t, "demo", "host=1,gpu=0")
	c.client(t, "call", "demo[host=1,gpu=1]", "talker", "crash")
	s := c.agentOf(t)

	meshes := answer[[]inspect.MeshSummary](t, s, "meshes", nil)
	require.Len(t, meshes, 1)
	target := map[string]any{"mesh": meshes[0].Label}
	var x inspect.Explanation
	testkit.Until(t, "both failures are known", func() bool {
		x = answer[inspect.Explanation](t, s, "explain", target)
		return len(x.Causes) == 2
	})
	require.False(t, x.Healthy)
	require.Contains(t, x.Answer, "with 3 of its 4 ranks")
	require.Equal(t, "host=1,gpu=0", x.Causes[0].Region)
	require.Contains(t, x.Causes[0].Reason, "killed by signal 9")
	require.Equal(t, "host=1,gpu=1", x.Causes[1].Region)
	require.Contains(t, x.Causes[1].Reason, "crash test")
	v := answer[inspect.View](t, s, "mesh_show", target)
	require.Equal(t, up.Mesh, v.Mesh)

	failures := answer[[]actor.Event](t, s, "failures", map[string]any{"mesh": "demo", "since": "10m"})
	require.Len(t, failures, 1)
	require.Equal(t, 9, failures[0].Signal)
	require.Equal(t, []string{"the checkpoint is torn"}, failures[0].StderrTail)
	require.Empty(t, answer[[]actor.Event](t, s, "failures", map[string]any{"mesh": "demo", "since": "1ms"}))
	lines := answer[[]logs.Record](t, s, "logs", map[string]any{"target": "demo[host=1]", "grep": "torn"})
	require.Len(t, lines, 2)
	require.Equal(t, "the checkpoint is torn", lines[0].Line)

	types := answer[[]inspect.ActorType](t, s, "types", map[string]any{"target": "demo[host=0]"})
	names := map[string]inspect.ActorType{}
	for _, of := range types {
		names[of.Type] = of
	}
	require.Equal(t, 2, names["talker"].Running)
	require.Equal(t, []string{"talker"}, names["talker"].Actors)
	require.Contains(t, names["talker"].Endpoints, "rank(struct {}) int")
	require.Empty(t, names["counter"].Actors, "its program knows it, and no rank has one")

	_, notes, fails := use(t, s, "explain", map[string]any{"mesh": "nothing"})
	require.True(t, fails)
	require.Contains(t, notes, `castnet: mesh "nothing" does not exist; there is demo-`)
}

func TestMCP_toolsHaveTheDocumentsOfTheirCommands(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=2")
	s := c.agentOf(t)
	require.Len(t, answer[[]agent.HostInfo](t, s, "hosts", nil), 2)
	require.Len(t, answer[[]inspect.Proc](t, s, "procs", map[string]any{"target": "demo[host=0]"}), 2)
	require.Len(t, answer[[]inspect.Actor](t, s, "actors", map[string]any{"target": "demo"}), 4)
	require.Len(t, answer[[]agent.Metrics](t, s, "metrics", map[string]any{"hosts": []string{"a"}}), 1)
	require.NotEmpty(t, answer[[]any](t, s, "stack", map[string]any{"target": "demo", "all": true}))
	require.Len(t, answer[inspect.Sample](t, s, "top", map[string]any{"target": "demo", "sort": "mem"}).Procs, 4)
	findings := answer[[]doctor.Finding](t, s, "doctor", nil)
	require.Equal(t, "connection", findings[0].Check)
	document, notes, _ := use(t, s, "worlds", nil)
	require.Empty(t, document)
	require.Contains(t, notes, "castnet: ", "no system controller runs here")
}

func TestMCP_actsAsToldAndNoMore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=2", "--params", "10")
	s := c.agentOf(t, "--act")
	add := map[string]any{"target": "demo[host=1,gpu=0]", "actor": "counter", "endpoint": "add", "message": 5}
	require.Equal(t, 15, answer[int](t, s, "call", add))
	add["target"], add["message"], add["reduce"] = "demo", 1, "sum"
	sum := answer[casting.ReduceResult](t, s, "cast", add)
	require.JSONEq(t, "49", string(sum.Value))
	require.Equal(t, 4, sum.Coverage.Answered)
	_, notes, fails := use(t, s, "cast", map[string]any{"target": "demo", "actor": "counter", "endpoint": "nope"})
	require.True(t, fails)
	require.Equal(t, "castnet: no rank takes the message: actor type counter has no such endpoint; "+
		"it has add, get, reset", notes)

	type result struct {
		Result string `json:"result"`
	}
	hosts := map[string]any{"hosts": []string{"b"}, "reason": "new disks"}
	require.Equal(t, []result{{"cordoned"}}, answer[[]result](t, s, "cordon", hosts))
	require.Equal(t, agent.ModeCordoned, answer[[]agent.HostInfo](t, s, "hosts", nil)[1].Mode)
	require.Equal(t, []result{{"open"}}, answer[[]result](t, s, "uncordon", hosts))
	shrunk := answer[[]resizeRecord](t, s, "shrink", map[string]any{"mesh": "demo", "n": 1})
	require.Equal(t, "b", shrunk[0].Host)
	grown := answer[[]resizeRecord](t, s, "grow", map[string]any{"mesh": "demo", "hosts": []string{"b"}})
	require.Equal(t, "b", grown[0].Host)
	for _, p := range answer[[]inspect.Proc](t, s, "procs", map[string]any{"target": "demo"}) {
		c.procs = append(c.procs, p.PID)
	}
	_, notes, fails = use(t, s, "restart", map[string]any{"target": "demo"})
	require.True(t, fails, "its actors would be lost")
	require.Contains(t, notes, "--force")
	ended := answer[[]inspect.Proc](t, s, "stop", map[string]any{"mesh": "demo", "reason": "done"})
	require.Len(t, ended, 4)
	require.Equal(t, "stopped", ended[0].Status)
}

func TestMCP_anObserverReadsAndOtherToolsNameTheRole(t *testing.T) {
	t.Parallel()
	token := ticket.NewToken()
	c := newClusterOn(t, []testmesh.Option{testmesh.Server(func(o *embed.Options) {
		o.Tickets = true
		o.Token = token
	})}, "a")
	c.up(t, "--per-host", "gpu=2")
	minted := c.client(t, "auth", "mint", "--role", "observer", "bob", "--for", "1h")
	require.Equal(t, cli.ExitOK, minted.code, minted.err)
	bob := &cluster{Cluster: c.Cluster, env: append(slices.Clone(c.env), "NATS_TOKEN="+strings.TrimSpace(minted.out))}
	s := bob.agentOf(t, "--act")
	require.Len(t, answer[[]inspect.MeshSummary](t, s, "meshes", nil), 1)
	require.Len(t, answer[[]inspect.Proc](t, s, "procs", map[string]any{"target": "demo"}), 2)
	for tool, arguments := range map[string]map[string]any{
		"cast":   {"target": "demo", "actor": "counter", "endpoint": "add", "message": 1, "reduce": "sum"},
		"call":   {"target": "demo[gpu=0]", "actor": "counter", "endpoint": "add", "message": 1},
		"stop":   {"mesh": "demo"},
		"cordon": {"hosts": []string{"a"}},
	} {
		_, notes, fails := use(t, s, tool, arguments)
		require.True(t, fails, tool)
		require.Contains(t, notes, "role", tool)
		require.NotContains(t, strings.TrimSpace(notes), "\n", "%s: one line says it", tool)
	}
	require.Len(t, answer[[]inspect.Proc](t, s, "procs", map[string]any{"target": "demo"}), 2)
}

func TestMCP_eventsComeWhileTheAgentWatches(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	s := c.agentOf(t)
	var events []actor.Event
	// On a busy machine the watch of a call begins after the kill, or at its end.
	for seconds := 5; len(events) == 0; seconds *= 2 {
		require.Less(t, seconds, 60, "no event came")
		name := fmt.Sprintf("demo%d", seconds)
		c.up(t, name, "--per-host", "gpu=2")
		watched := make(chan *mcp.CallToolResult, 1)
		go func() {
			defer close(watched)
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{
				Name: "events", Arguments: map[string]any{"seconds": seconds, "mesh": name, "kind": "proc"},
			})
			if err == nil {
				watched <- r
			}
		}()
		c.kill(t, name, "host=0,gpu=1")
		r := <-watched // within its seconds
		require.NotNil(t, r)
		document, _, fails := read(t, r)
		require.False(t, fails)
		events = decode[[]actor.Event](t, document)
	}
	require.Equal(t, 9, events[0].Signal)
}

func TestMCP_spawnedMeshesAreDetached(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.System(t, "s")
	s := c.agentOf(t, "--act")
	r := answer[heldmesh.Started](t, s, "spawn", map[string]any{
		"name": "trial", "per_host": "gpu=2", "params": 7, "hosts": []string{"a"},
	})
	require.Positive(t, r.Epoch)
	require.Equal(t, 7, answer[int](t, s, "call",
		map[string]any{"target": "trial[host=0,gpu=1]", "actor": "counter", "endpoint": "get"}))
	require.Len(t, answer[[]inspect.Proc](t, s, "stop", map[string]any{"mesh": "trial"}), 2)
}

func TestMCP_refusesATokenFromStandardInput(t *testing.T) {
	t.Parallel()
	r := runClient(t, baseEnv(t.TempDir()), "mcp", "--token-file", "-")
	require.Equal(t, cli.ExitUsage, r.code)
	require.Contains(t, r.err, "--token-file -: standard input belongs to the client of mcp")
}

// The bus may be away: the agent reads that, and calls again.
func TestMCP_servesWithoutABus(t *testing.T) {
	t.Parallel()
	c := &cluster{env: append(baseEnv(t.TempDir()), "NATS_URL=nats://127.0.0.1:1", "NATS_TOKEN=secret")}
	s := c.agentOf(t)
	_, notes, fails := use(t, s, "meshes", nil)
	require.True(t, fails)
	require.Contains(t, notes, "127.0.0.1:1")
	require.NotContains(t, notes, "secret")
}

func TestGolden_mcpTools(t *testing.T) {
	in, clientOut := io.Pipe()
	clientIn, out := io.Pipe()
	help := rootCommand(&app.App{Printer: &output.Printer{}})
	ended := make(chan error, 1)
	go func() {
		ended <- mcpserver.Serve(t.Context(), in, out, mcpserver.Options{
			Act: true, Returns: func(command []string) string { return jsonHelp(help, command) },
		})
	}()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).
		Connect(testkit.Soon(t), &mcp.IOTransport{Reader: clientIn, Writer: clientOut}, nil)
	require.NoError(t, err)
	listed, err := s.ListTools(testkit.Soon(t), nil)
	require.NoError(t, err)
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(listed.Tools))
	golden.CheckText(t, "mcp-tools.json", text.String())
	require.NoError(t, s.Close())
	require.NoError(t, testkit.Next(t, ended))
}
