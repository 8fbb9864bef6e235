package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
)

func TestConfigFile_keysAreNestedOrDotted_CLI7(t *testing.T) {
	path := filepath.Join(t.TempDir(), "castnet.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`# limits of this machine
proc.ready-timeout: 2m
proc:
  spawn-progress-timeout: 1m
  death-signal: off
"delivery": { max-message: 16MiB, "timeout": "1m" }
terminate.concurrency: 8
`), 0o600))
	settings, err := cli.ReadConfigFile(path)
	require.NoError(t, err)
	require.Equal(t, map[string]config.Setting{
		"proc.ready-timeout":          {Text: "2m", Source: path + ":2:1"},
		"proc.spawn-progress-timeout": {Text: "1m", Source: path + ":4:3"},
		"proc.death-signal":           {Text: "off", Source: path + ":5:3"},
		"delivery.max-message":        {Text: "16MiB", Source: path + ":6:15"},
		"delivery.timeout":            {Text: "1m", Source: path + ":6:35"},
		"terminate.concurrency":       {Text: "8", Source: path + ":7:1"},
	}, settings)
	var c config.Config
	require.NoError(t, c.LoadFile(settings))
	require.Equal(t, 2*time.Minute, config.ProcReadyTimeout.Get(&c))
	require.False(t, config.ProcDeathSignal.Get(&c))
}

func TestParseConfig_emptyFileSetsNothing_CLI7(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "{}"} {
		settings, err := cli.ParseConfig("c", []byte(text))
		require.NoError(t, err, text)
		require.Empty(t, settings)
	}
}

func TestParseConfig_errorsNameLineAndColumn_CLI7(t *testing.T) {
	for text, want := range map[string]string{
		"proc:\n  ready-timeout: [1, 2]\n":                      `c:2:18: "proc.ready-timeout": want one value: no list, no alias`,
		"a: &x 1s\nproc.ready-timeout: *x\n":                    `c:2:21: "proc.ready-timeout": want one value: no list, no alias`,
		"proc.ready-timeout: 1s\nproc:\n  ready-timeout: 2s\n":  `c:3:3: "proc.ready-timeout" is set already: c:1:1`,
		"proc.ready-timeout:\n":                                 `c:1:20: "proc.ready-timeout" has no value`,
		"- proc.ready-timeout\n":                                `c:1:1: want keys and values, such as proc.ready-timeout: 30s`,
		"? [a]\n: 1\n":                                          `c:1:3: want the name of a key`,
		"a: {b: {c: {d: {e: {f: {g: {h: {}}}}}}}}":              `c:1:32: want at most 8 levels`,
		"proc.ready-timeout: 1s\n---\nproc.ready-timeout: 2s\n": `c:1:1: want one document only`,
		"proc.ready-timeout: 1s: 2s\n":                          `c: mapping values are not allowed in this context`,
		"a: 1\n\tb: 2\n":                                        `c:2: found a tab character that violates indentation`,
		"a: [\nproc.ready-timeout: &a\nproc: ~\n":               `c:2: did not find expected ',' or ']'`,
		strings.Repeat("#", 1<<20+1):                            "c: more than 1048576 bytes",
		"host: null\nproc: [a]\n": "c:1:7: \"host\" has no value\nc:2:7: " +
			"\"proc\": want one value: no list, no alias",
	} {
		_, err := cli.ParseConfig("c", []byte(text))
		require.EqualError(t, err, want)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
	_, err := cli.ReadConfigFile(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
}

func TestParseConfig_unknownKeysAreLocated_CLI7(t *testing.T) {
	settings, err := cli.ParseConfig("c", []byte("proc:\n  spwan-progress-timeout: 1s\nterminate:\n  concurrency: 1000\n"))
	require.NoError(t, err)
	err = new(config.Config).LoadFile(settings)
	require.EqualError(t, err, "c:2:3: there is no key \"proc.spwan-progress-timeout\"; "+
		"did you mean proc.spawn-progress-timeout?\n"+
		"c:4:3: terminate.concurrency=\"1000\": want 1 to 256")
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
}

func TestConfigPage_showsAValidFile(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	settings, err := cli.ParseConfig("castnet.yaml", []byte(text))
	require.NoError(t, err)
	require.Len(t, settings, 4)
	require.NoError(t, new(config.Config).LoadFile(settings))
}

func TestWriteConfig_namesTheSourcesOfValues(t *testing.T) {
	entries := []config.Entry{
		{Name: "proc.ready-timeout", Value: "2m", Default: "30s", Layer: config.LayerFile, Source: "c.yaml:2:1",
			Changed: true, Env: "CASTNET_PROC_READY_TIMEOUT"},
		{Name: "attach.timeout", Value: "1m", Default: "1m", Layer: config.LayerEnv,
			Source: "CASTNET_ATTACH_TIMEOUT", Env: "CASTNET_ATTACH_TIMEOUT"},
		{Name: "of.a.stranger", Value: "\x1b[2J\n", Default: "a\tb", Layer: "client", Changed: true, Env: "X"},
	}
	var b strings.Builder
	require.NoError(t, cli.WriteConfig(&b, entries, false))
	require.Equal(t, ""+
		"KEY                 VALUE  FROM         DEFAULT  VARIABLE\n"+
		"proc.ready-timeout  2m     c.yaml:2:1   30s      CASTNET_PROC_READY_TIMEOUT\n"+
		"attach.timeout      1m     environment  1m       CASTNET_ATTACH_TIMEOUT\n"+
		"of.a.stranger       ?[2J?  client       a?b      X\n", b.String())
	b.Reset()
	require.NoError(t, cli.WriteConfig(&b, entries[1:2], true))
	require.Equal(t, "KEY  VALUE  FROM  DEFAULT  VARIABLE\n", b.String())
}

// No file makes the reader panic, and each parsed setting has its place in the file.
func FuzzParseConfig(f *testing.F) {
	for _, text := range []string{
		"proc.ready-timeout: 2m\nproc:\n  spawn-progress-timeout: 1m\n", "a: &x [*x]", "a: &x {<<: *x}", "? {a: b}\n: c",
		"%YAML 1.2\n---\na: |\n  b\n...\n", "\xff\xfe", "a: !!binary x",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		settings, err := cli.ParseConfig("c", data)
		if err != nil {
			require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
			return
		}
		for name, s := range settings {
			require.Regexp(t, `^c:[1-9][0-9]*:[1-9][0-9]*$`, s.Source, name)
		}
		_ = new(config.Config).LoadFile(settings)
	})
}
