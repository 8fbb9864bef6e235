package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
)

func TestExample_callsAnEndpointWithAValidMessage(t *testing.T) {
	for described, want := range map[string][3]any{
		"add(int64) int64":                  {"add", "1", true},
		"get(struct {}) int64":              {"get", "", true},
		"echo(interface {}) interface {}":   {"echo", `"hello"`, false},
		"say(string) struct {}":             {"say", `"hello"`, false},
		"set(bool) float32":                 {"set", "true", true},
		"step(main.Step) main.Result":       {"step", "{}", false},
		"count(struct { N int }) []uint":    {"count", "{}", false},
		"each(map[string]int) uint8":        {"each", "{}", true},
		"call(func(int) (int, error)) bool": {"call", "{}", false},
	} {
		name, body, number := exampleMessage([]string{described, "zzz(int) int"})
		require.Equal(t, want, [3]any{name, body, number}, described)
	}
}

func TestShellQuote_yieldsOneShellWord(t *testing.T) {
	for _, s := range []string{"plain", "demo[host=0,gpu=1]", `{"a":"it's"}`, "", "$HOME `id`", "a b\tc\nd", "*", "~", `\`} {
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+shellQuote(s)).Output()
		require.NoError(t, err)
		require.Equal(t, s, string(out))
	}
	require.Equal(t, "plain-1.2/x", shellQuote("plain-1.2/x"))
}

func TestConnectionFlags_repeatTheConnectionWithoutSecrets(t *testing.T) {
	a := &app{conn: cli.Connection{
		Server: "nats://me:hunter2@one:4222,nats://two", Creds: "/a b.creds", User: "me", Password: "hunter2", Token: "t0ken", Namespace: "lab",
	}}
	flags := a.connectionFlags()
	require.Equal(t, []string{
		"--server", "nats://one:4222,nats://two", "--creds", "'/a b.creds'", "--user", "me",
		"--password", `"$NATS_PASSWORD"`, "--token", `"$NATS_TOKEN"`, "--namespace", "lab",
	}, flags)
	require.Empty(t, (&app{conn: cli.Connection{Namespace: "default"}}).connectionFlags())
}
