package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
)

func TestConnectionFlags_repeatTheConnectionWithoutSecrets(t *testing.T) {
	a := &App{Conn: cli.Connection{
		Server: "nats://me:hunter2@one:4222,nats://two", Creds: "/a b.creds", User: "me", Password: "hunter2",
		Token: "t0ken", Namespace: "lab",
	}}
	flags := a.ConnectionFlags()
	require.Equal(t, []string{
		"--server", "nats://one:4222,nats://two", "--creds", "'/a b.creds'", "--user", "me",
		"--password", `"$NATS_PASSWORD"`, "--token", `"$NATS_TOKEN"`, "--namespace", "lab",
	}, flags)
	require.Empty(t, (&App{Conn: cli.Connection{Namespace: "default"}}).ConnectionFlags())
}
