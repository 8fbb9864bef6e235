package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
)

// line is a server whose client writes lines.
type line struct {
	in    *io.PipeWriter
	out   *bufio.Reader
	ended chan error
}

func serve(t *testing.T, run Run, act bool) *line {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	serverIn, in := io.Pipe()
	out, serverOut := io.Pipe()
	l := &line{in: in, out: bufio.NewReader(out), ended: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.ended <- Serve(ctx, serverIn, serverOut, Options{
			Run: run, Returns: func([]string) string { return "" }, Act: act, Version: "test",
		})
		_ = serverOut.Close()
	}()
	t.Cleanup(func() {
		cancel()
		_ = in.Close()
		_ = out.Close()
		testkit.Next(t, ended)
	})
	return l
}

// client is an MCP client of a server.
func client(t *testing.T, run Run, act bool) *mcp.ClientSession {
	t.Helper()
	l := serve(t, run, act)
	c := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	s, err := c.Connect(testkit.Soon(t), &mcp.IOTransport{Reader: io.NopCloser(l.out), Writer: l.in}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func call(ctx context.Context, s *mcp.ClientSession, name string, arguments any) (*mcp.CallToolResult, error) {
	return s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
}

// texts are the texts of a result.
func texts(t *testing.T, r *mcp.CallToolResult) (all []string) {
	t.Helper()
	for _, c := range r.Content {
		text, ok := c.(*mcp.TextContent)
		require.True(t, ok)
		all = append(all, text.Text)
	}
	return all
}

// prints is a command with an output and an exit code.
func prints(stdout, stderr string, code int) Run {
	return func(_ context.Context, _ []string, out, errs io.Writer) int {
		_, err := io.WriteString(out, stdout)
		if err != nil {
			_, _ = io.WriteString(errs, err.Error())
			return cli.ExitFailure
		}
		_, _ = io.WriteString(errs, stderr)
		return code
	}
}

func TestServe_readsUnlessToldToAct_MCP1(t *testing.T) {
	for _, act := range []bool{false, true} {
		s := client(t, prints("[]", "", 0), act)
		listed, err := s.ListTools(testkit.Soon(t), nil)
		require.NoError(t, err)
		require.Len(t, listed.Tools, map[bool]int{false: 15, true: 25}[act])
		for _, tool := range listed.Tools {
			known := find(t, tool.Name)
			require.Equal(t, known.acts, !tool.Annotations.ReadOnlyHint, tool.Name)
			require.Equal(t, known.acts, *tool.Annotations.DestructiveHint, tool.Name)
			require.True(t, act || !known.acts, tool.Name)
		}
		r, err := call(testkit.Soon(t), s, "stop", map[string]any{"mesh": "demo"})
		if act {
			require.NoError(t, err)
			require.False(t, r.IsError)
		} else {
			require.ErrorContains(t, err, `unknown tool "stop"`)
		}
	}
}

func TestServe_resultsHaveTheDocumentAndTheNotes(t *testing.T) {
	for _, row := range []struct {
		tool  string
		run   Run
		want  []string
		fails bool
	}{
		{"hosts", prints("[ 1 ]\n", "", 0), []string{"[1]"}, false},
		{"hosts", prints("[]", "castnet: 1 of 2 hosts did not answer\n", cli.ExitPartial),
			[]string{"[]", "castnet: 1 of 2 hosts did not answer"}, false},
		{"hosts", prints("", "castnet: no bus\n", cli.ExitConnection), []string{"castnet: no bus"}, true},
		{"stop", prints("[1]", "castnet: 1 left\n", cli.ExitFailure), []string{"[1]", "castnet: 1 left"}, true},
		{"hosts", prints("[1", "castnet: torn", cli.ExitFailure),
			[]string{"the result is not JSON: unexpected end of JSON input\ncastnet: torn"}, true},
		{"events", prints("{}\n{\"a\":1}\n", "", 0), []string{`[{},{"a":1}]`}, false},
		{"events", prints("", "", 0), []string{`[]`}, false},
		{"stop", prints("[]", strings.Repeat("x", 1<<20), 0),
			[]string{"[]", strings.Repeat("x", maxNotes) + "…"}, false},
	} {
		s := client(t, row.run, true)
		arguments := map[string]any{}
		if row.tool == "stop" {
			arguments["mesh"] = "demo"
		}
		r, err := call(testkit.Soon(t), s, row.tool, arguments)
		require.NoError(t, err)
		require.Equal(t, row.want, texts(t, r))
		require.Equal(t, row.fails, r.IsError, row.want)
	}
}

func TestServe_hugeOutputIsRefused_MCP3(t *testing.T) {
	s := client(t, prints("["+strings.Repeat("1,", maxDocument)+"1]", "", 0), false)
	r, err := call(testkit.Soon(t), s, "hosts", nil)
	require.NoError(t, err)
	require.True(t, r.IsError)
	require.Equal(t, []string{"the result of hosts has more than 8 MiB: ask for a region or for less"}, texts(t, r))
}

func TestServe_wrongArgumentsRunNothing_MCP2(t *testing.T) {
	s := client(t, func(context.Context, []string, io.Writer, io.Writer) int { panic("it ran") }, true)
	for _, arguments := range []any{
		map[string]any{"mesh": 5}, map[string]any{"mesh": []any{}}, map[string]any{"x": "y"}, []int{1}, "text",
		map[string]any{"mesh": strings.Repeat("x", maxMessage/2), "timeout": -1},
	} {
		r, err := call(testkit.Soon(t), s, "stop", arguments)
		if err != nil {
			continue // the SDK refuses what is no object
		}
		require.True(t, r.IsError, arguments)
		require.Less(t, len(texts(t, r)[0]), 1000)
	}
}

func TestServe_atMostFourCommandsRun_MCP3(t *testing.T) {
	var running, most atomic.Int64
	release := make(chan struct{})
	s := client(t, func(ctx context.Context, _ []string, out, _ io.Writer) int {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		_, _ = io.WriteString(out, "1")
		return 0
	}, false)
	const all = maxCalls + 6
	ends := make(chan *mcp.CallToolResult, all)
	ctx := testkit.Soon(t)
	for range all {
		go func() {
			r, err := call(ctx, s, "hosts", nil)
			if err != nil {
				r = &mcp.CallToolResult{}
			}
			ends <- r
		}()
	}
	for range all - maxCalls {
		r := testkit.Next(t, ends)
		require.True(t, r.IsError)
		require.Equal(t, []string{"hosts: 64 calls run or wait: want fewer at a time"}, texts(t, r))
	}
	testkit.Until(t, "four run", func() bool { return running.Load() == maxRunning })
	close(release)
	for range maxCalls {
		require.False(t, testkit.Next(t, ends).IsError)
	}
	require.EqualValues(t, maxRunning, most.Load())
}

// untilCancelled is a command that runs until it is cancelled.
func untilCancelled(began chan<- struct{}, ended chan<- error) Run {
	return func(ctx context.Context, _ []string, _, _ io.Writer) int {
		began <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return cli.ExitInterrupted
	}
}

func TestServe_clientsCancelCalls_MCP4(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	s := client(t, untilCancelled(began, ended), true)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := call(ctx, s, "stop", map[string]any{"mesh": "demo"})
		failed <- err
	}()
	testkit.Next(t, began)
	cancel()
	require.ErrorIs(t, testkit.Next(t, failed), context.Canceled)
	require.ErrorIs(t, testkit.Next(t, ended), context.Canceled)
}

func TestServe_callsEndByTheirDeadline_MCP4(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	s := client(t, untilCancelled(began, ended), false)
	r, err := call(testkit.Soon(t), s, "events", map[string]any{"seconds": 1})
	require.NoError(t, err)
	require.Equal(t, []string{"[]"}, texts(t, r), "the end of the window is no error")
	require.ErrorIs(t, testkit.Next(t, ended), context.DeadlineExceeded)
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n" +
	`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

// write sends lines without waiting for answers, and closes the client's side.
func (l *line) write(text string) (closed <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(l.in, text) // fails when the server has ended
		_ = l.in.Close()
	}()
	return done
}

// answers are the lines of the server until it ends.
func (l *line) answers(t *testing.T) (all []map[string]any) {
	t.Helper()
	for {
		text, err := l.out.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(text, &m))
		all = append(all, m)
	}
}

func toolCall(id int, name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n",
		id, name, arguments)
}

func TestServe_answersAClientThatHasClosedItsSide_MCP4(t *testing.T) {
	closed := make(chan struct{})
	l := serve(t, func(ctx context.Context, args []string, out, errs io.Writer) int {
		select {
		case <-closed:
			return prints("1", "", 0)(ctx, args, out, errs)
		case <-ctx.Done():
			return cli.ExitInterrupted
		}
	}, false)
	go func() {
		<-l.write(hello + toolCall(1, "hosts", "{}") + toolCall(2, "worlds", "{}"))
		close(closed)
	}()
	answers := l.answers(t)
	require.Len(t, answers, 3)
	for _, m := range answers[1:] {
		require.Contains(t, fmt.Sprint(m["result"]), "text:1")
	}
	require.NoError(t, testkit.Next(t, l.ended))
}

func TestServe_cancelsTheCallsOfAGoneClient_MCP4(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	l := serve(t, untilCancelled(began, ended), true)
	l.write(hello + toolCall(1, "stop", `{"mesh":"demo"}`))
	begun := time.Now()
	l.answers(t)
	require.ErrorIs(t, testkit.Next(t, ended), io.EOF)
	require.NoError(t, testkit.Next(t, l.ended))
	require.Less(t, time.Since(begun), goneTimeout+testkit.Patience/2)
}

func TestServe_hostileInputEndsTheSessionWithAnError(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":       "hello\n",
		"half of JSON":  `{"jsonrpc":"2.0"`,
		"no request":    "{}\n",
		"a list":        "[]\n",
		"binary":        "\x00\xff\xfe\n",
		"deep nesting":  strings.Repeat("[", 100_000) + "\n",
		"a huge line":   hello + toolCall(1, "explain", `{"mesh":"`+strings.Repeat("x", 2*maxMessage)+`"}`),
		"a huge number": `{"jsonrpc":"2.0","id":1e999,"method":"ping"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			l := serve(t, prints("[]", "", 0), false)
			l.write(text)
			l.answers(t)
			err := testkit.Next(t, l.ended)
			require.ErrorContains(t, err, "cannot serve the client: ")
			require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
			require.Less(t, len(err.Error()), 1000)
		})
	}
}

func TestServe_wrongRequestsAreAnswered(t *testing.T) {
	l := serve(t, prints("[]", "", 0), false)
	l.write(hello + toolCall(1, "no_such_tool", "{}") + toolCall(2, "hosts", "5") + toolCall(3, "", "{}") +
		`{"jsonrpc":"2.0","id":4,"method":"nothing"}` + "\n" + toolCall(5, "hosts", "{}"))
	codes := map[float64]bool{}
	for _, m := range l.answers(t) {
		id, _ := m["id"].(float64)
		_, failed := m["error"]
		codes[id] = failed
		if id == 2 {
			result, _ := m["result"].(map[string]any)
			codes[id] = result["isError"] == true
		}
	}
	require.Equal(t, map[float64]bool{0: false, 1: true, 2: true, 3: true, 4: true, 5: false}, codes)
	require.NoError(t, testkit.Next(t, l.ended))
}
