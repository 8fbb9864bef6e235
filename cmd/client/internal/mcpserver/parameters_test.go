package mcpserver

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func find(t testing.TB, name string) tool {
	t.Helper()
	all := tools()
	at := slices.IndexFunc(all, func(t tool) bool { return t.name == name })
	require.GreaterOrEqual(t, at, 0, name)
	return all[at]
}

func TestRead_makesACommandLine(t *testing.T) {
	for _, row := range []struct{ tool, arguments, want string }{
		{"hosts", ``, "hosts --"},
		{"hosts", `null`, "hosts --"},
		{"hosts", `{"label":"zone=a"}`, "hosts --label=zone=a --"},
		{"mesh_show", `{"mesh":"demo"}`, "mesh show -- demo"},
		{"procs", `{"all":true}`, "procs --all=true --"},
		{"logs", `{"target":"demo[host=0]","grep":"a b","since":null}`, "logs --tail=20 --grep=a b -- demo[host=0]"},
		{"metrics", `{"hosts":["a","b"]}`, "metrics -- a b"},
		{"call", `{"target":"d","actor":"c","endpoint":"add","message":9223372036854775807}`,
			"call --timeout=120s -- d c add 9223372036854775807"},
		{"cast", `{"target":"d","actor":"c","endpoint":"e","message":{"a":null},"one_per":"host","timeout":7}`,
			"cast --timeout=7s --one-per=host -- d c e {\"a\":null}"},
		{"cast", `{"target":"d","actor":"c","endpoint":"e","message":null}`, "cast --timeout=120s -- d c e null"},
		{"spawn", `{"name":"x","hosts":["a","b"],"arg":["-v","a,b"],"actor":""}`,
			"spawn --detach --hosts=a,b --actor= --arg=-v --arg=a,b --timeout=120s -- x"},
	} {
		call, err := find(t, row.tool).read(json.RawMessage(row.arguments))
		require.NoError(t, err, row.arguments)
		require.Equal(t, row.want, strings.Join(call.args, " "))
	}
}

func TestRead_aTimeoutBoundsTheCall_MCP4(t *testing.T) {
	for arguments, want := range map[string]time.Duration{
		`{"mesh":"x"}`:             baseTimeout*time.Second + afterTimeout,
		`{"mesh":"x","timeout":5}`: 5*time.Second + afterTimeout,
	} {
		call, err := find(t, "stop").read(json.RawMessage(arguments))
		require.NoError(t, err)
		require.Equal(t, want, call.deadline)
	}
	call, err := find(t, "events").read(json.RawMessage(`{"seconds":7}`))
	require.NoError(t, err)
	require.True(t, call.window)
	require.Equal(t, 7*time.Second, call.deadline)
	call, err = find(t, "hosts").read(nil)
	require.NoError(t, err)
	require.Equal(t, readTimeout+afterTimeout, call.deadline)
}

func TestRead_wrongArgumentsSayWhatIsWanted_MCP2(t *testing.T) {
	for _, row := range []struct{ tool, arguments, want string }{
		{"explain", ``, `explain: mesh: is missing: name or ID of a mesh or world, such as "demo"`},
		{"explain", `{"mesh":" "}`, `explain: mesh: is empty: name or ID of a mesh or world, such as "demo"`},
		{"explain", `{"mesh":5}`, `explain: mesh: want a string, such as "demo", got 5`},
		{"explain", `{"name":"demo"}`, `explain has no parameter "name": want mesh`},
		{"doctor", `{"x":1}`, `doctor has no parameter "x": want none`},
		{"logs", `{"target":"d","tail":"5"}`, `logs: tail: want a whole number from 1 to 1000, got "5"`},
		{"logs", `{"target":"d","tail":1.5}`, `logs: tail: want a whole number from 1 to 1000, got 1.5`},
		{"logs", `{"target":"d","tail":1e30}`, `logs: tail: want a whole number from 1 to 1000, got 1e30`},
		{"grow", `{"mesh":"d","n":0}`, `grow: n: want a whole number of 1 or more, got 0`},
		{"procs", `{"all":"yes"}`, `procs: all: want true or false, got "yes"`},
		{"cordon", `{"hosts":"a"}`, `cordon: hosts: want a list of strings, such as ["n07","n08"], got "a"`},
		{"cordon", `{"hosts":[]}`, `cordon: hosts: is empty: labels or IDs of hosts, such as ["n07","n08"]`},
		{"grow", `{"mesh":"d","hosts":["a,b"]}`, `grow: hosts: want one name in each string, got "a,b"`},
		{"explain", `{"mesh":"a\u0000b"}`, `explain: mesh: want a string without zero bytes`},
		{"explain", `{"mesh":"` + strings.Repeat("x", 99) + `","y":1}`,
			`explain has no parameter "y": want mesh`},
		{"cordon", `{"hosts":[` + strings.Repeat(`"a",`, maxNames) + `"a"]}`,
			`cordon: hosts: want at most 1024 strings, got 1025`},
	} {
		_, err := find(t, row.tool).read(json.RawMessage(row.arguments))
		require.EqualError(t, err, row.want)
	}
	_, err := find(t, "explain").read(json.RawMessage(`[1]`))
	require.ErrorContains(t, err, "explain: want a JSON object with mesh: ")
}

// An agent copies the examples.
func TestTools_examplesAreValid(t *testing.T) {
	for _, tool := range tools() {
		_, err := tool.read(json.RawMessage(tool.example))
		require.NoError(t, err)
		var schema map[string]any
		require.NoError(t, json.Unmarshal(tool.schema(), &schema), tool.name)
		require.Equal(t, "object", schema["type"])
		for _, p := range tool.parameters {
			for _, example := range p.examples {
				_, err := p.read(mustJSON(example))
				require.NoError(t, err, "%s %s", tool.name, p.name)
			}
		}
	}
}

// No arguments become a flag of their own or panic.
func FuzzRead(f *testing.F) {
	for i, tool := range tools() {
		f.Add(i, []byte(tool.example))
	}
	f.Add(0, []byte(`{"label":"--server=nats://evil"}`))
	f.Add(2, []byte(`{"target":"--help"}`))
	f.Add(15, []byte(`{"target":"-s","actor":"--","endpoint":"--output","message":"--x"}`))
	f.Fuzz(func(t *testing.T, which int, arguments []byte) {
		all := tools()
		tool := all[uint(which)%uint(len(all))]
		call, err := tool.read(arguments)
		if err != nil {
			return
		}
		require.Positive(t, call.deadline)
		require.LessOrEqual(t, call.deadline, maxTimeout*time.Second+afterTimeout)
		requireOwnFlags(t, tool, call.args)
	})
}

// requireOwnFlags requires that all before -- are words and flags of the tool.
func requireOwnFlags(t *testing.T, tool tool, args []string) {
	t.Helper()
	end := slices.Index(args, "--")
	known := slices.Concat(tool.command, tool.flags)
	require.Equal(t, known, args[:len(known)])
	for _, arg := range args[len(known):end] {
		own := slices.ContainsFunc(tool.parameters, func(p parameter) bool {
			return p.place == asFlag && strings.HasPrefix(arg, "--"+strings.ReplaceAll(p.name, "_", "-")+"=")
		})
		require.True(t, own, arg)
	}
}

func TestRead_textIsNeverAFlag_MCP2(t *testing.T) {
	call, err := find(t, "call").read(json.RawMessage(
		`{"target":"--server=nats://evil","actor":"--","endpoint":"-s","message":"--act"}`))
	require.NoError(t, err)
	requireOwnFlags(t, find(t, "call"), call.args)
	require.Equal(t, []string{"--server=nats://evil", "--", "-s", `"--act"`}, call.args[len(call.args)-4:])
}
