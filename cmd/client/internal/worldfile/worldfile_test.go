package worldfile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

func TestWorldFile_coversEveryField(t *testing.T) {
	all, err := parseWorlds("w", []byte(`
name: train
shape: { replica: 2, gpu: 4 }
per-host: 4
command: { path: /bin/w, args: [--verbose], env: { DATA: /data }, dir: /tmp }
labels: { team: vision }
limits: { memory: 8589934592, pids: 64, cpu: 1.5, files: 100, pinned_cpus: 2 }
keep: true
---
name: one
shape: ""
per-host: 1
command: builtin
`))
	require.NoError(t, err)
	require.Equal(t, []system.Spec{
		{
			Name: "train", Shape: shape.Of("replica", 2).With("gpu", 4), PerHost: 4,
			Labels: map[string]string{"team": "vision"}, Keep: true,
			Command: agent.Command{Path: "/bin/w", Args: []string{"--verbose"},
				Env: []string{"DATA=/data"}, Dir: "/tmp"},
			Limits: agent.Limits{Memory: 8 << 30, Pids: 64, CPU: 1.5, Files: 100, PinnedCPUs: 2},
		},
		{Name: "one", Shape: shape.Unit(), PerHost: 1, Command: agent.Command{Path: agent.Builtin}},
	}, all)
}

func TestWorldFile_errorsNameLineAndColumn(t *testing.T) {
	const rest = "\nper-host: 1\ncommand: builtin\n"
	for text, want := range map[string]string{
		"name: w\nshape: x=1\nper-hots: 2\n": `w:3:1: unknown key "per-hots" in a world: want one of command, keep, labels, limits, name, per-host, shape`,
		"name: w" + rest:                     `w:1:1: the world has no shape: want one such as host=2,gpu=4, or "" for one proc`,
		"name: w\nshape: x=0" + rest:         `w:2:8: `,
		"name: w\nshape: { x: ? }" + rest:    `w:1: did not find expected node content`,
		"name: w\nshape: { x: many }" +
			rest: `w:2:13: x="many": want a whole number of at least 1: a shape is known before its world begins`,
		"name: w\nshape: { x: 0 }" + rest:                      `w:2:10: `,
		"name: w\nshape: x=1\nper-host: 0\ncommand: builtin\n": `w:3:11: 0 procs per host: want 1 to 4096`,
		"name: w\nshape: x=1\nper-host: some\n":                `w:3:11: "some": want a whole number`,
		"name: a b\nshape: x=1" +
			rest: `w:1:7: world name "a b": want 1 to 32 characters`,
		"name: w\nshape: x=1\nper-host: 1\ncommand: bin/w\n": `w:1:1: world w: command "bin/w": want an absolute path on the hosts, or "builtin"`,
		"name: w\n shape: x=1\n":                             `w:2: mapping values are not allowed in this context`,
		"name: [w]\nshape: x=1" + rest:                       `w:1:7: want one value: no list, no mapping`,
		"- w\n":                                              `w:1:1: a world: want keys and values`,
		"name: w\nshape: x=1\nper-host: 1\ncommand: { paht: /x }\n": `w:4:12: unknown key "paht" in command: want one of args, dir, env, path`,
		"name: w\nshape: x=1\nper-host: 1\n":                        `w:1:1: world w: no command: want an absolute path on the hosts, or "builtin"`,
		"name: w\nshape: x=1\nkeep: maybe" + rest:                   `w:3:7: "maybe": want true or false`,
		"name: w\nshape: x=1\nlabels: [a]" + rest:                   `w:3:9: labels: want keys and values`,
		"name: w\nshape: x=1\nlimits: { memory: 1 }" +
			rest: `w:1:1: world w: memory limit of 1 bytes: want at least 8 MiB, or 0 for none`,
		"name: w\nshape: x=1\nlimits: { cpu: fast }" + rest: `w:3:16: "fast": want a number of cores`,
	} {
		_, err := parseWorlds("w", []byte(text))
		require.ErrorContains(t, err, want, text)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
}
