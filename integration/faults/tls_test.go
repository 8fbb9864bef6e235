package faults

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/integration/faults/chaos"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// The secrets of a recorded run.
const (
	tokenCanary   = "canary-token-Ahth5eiz"
	payloadCanary = "canary-payload-Iequ0oof"
	envCanary     = "canary-env-Ooj3aeSh"
)

// A host that joins and a program reach the server through a recorder. The recorder reads no secret
// with TLS. Without TLS it reads all of them, which shows that it would find them.
func TestTLS_listenerOnTheNetworkReadsNoSecret_HOSTD15(t *testing.T) {
	program := buildHostd(t, "")
	for name, row := range map[string]struct {
		args []string
		read []string
	}{
		"TLS":    {[]string{"--tls"}, nil},
		"no TLS": {nil, []string{tokenCanary, payloadCanary, envCanary}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := filepath.Join(t.TempDir(), "token")
			require.NoError(t, os.WriteFile(token, []byte(tokenCanary), 0o600))
			server := newMachine(t, program, append(row.args, "--token-file", token)...)
			server.start()
			local, err := bus.ReadLocal(filepath.Join(server.dir, "run", "castnet", "local.json"))
			require.NoError(t, err)
			scheme, address, _ := strings.Cut(local.URL, "://")
			recorder, err := chaos.Start(address)
			require.NoError(t, err)
			t.Cleanup(recorder.Close)
			recorder.Record()
			o := bus.Options{URL: scheme + "://" + recorder.Addr(), Token: local.Token, Fingerprint: local.Fingerprint}
			far := newMachine(t, program, "--nats", o.URL, "--token-file", token)
			far.joins = true
			far.args[len(far.args)-1] = "far"
			far.start("NATS_TLS_FINGERPRINT=" + o.Fingerprint)
			echoOnFarHost(t, o)

			var read []string
			for _, canary := range []string{tokenCanary, payloadCanary, envCanary} {
				for _, stream := range recorder.Recorded() {
					if bytes.Contains(stream, []byte(canary)) {
						read = append(read, canary)
						break
					}
				}
			}
			require.Equal(t, row.read, read)
			require.NotEmpty(t, recorder.Recorded())
			far.shutdown()
		})
	}
}

// echoOnFarHost spawns a proc on each host and sends it the payload, which it returns.
func echoOnFarHost(t *testing.T, o bus.Options) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := mesh.Connect(ctx, mesh.Options{Bus: &o, Log: zerolog.Nop()})
	require.NoError(t, err)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, conn.Close(ctx))
	}()
	hosts, err := conn.AwaitHosts(ctx, 2)
	require.NoError(t, err)
	procs, err := hosts.SpawnProcs(ctx, mesh.SpawnSpec{
		Name: "m", PerHost: shape.Of("gpu", 1),
		Command: mesh.Command{Path: agent.Builtin, Env: []string{"SECRET=" + envCanary}},
	})
	require.NoError(t, err)
	echoes, err := mesh.Spawn(ctx, procs, actor.NewType[any, actor.None]("echo"), "echoes", actor.None{})
	require.NoError(t, err)
	for rank := range 2 {
		back, err := actor.NewEndpoint[any, any, any]("echo").Call(ctx, echoes.At("host", rank), payloadCanary)
		require.NoError(t, err)
		require.Equal(t, payloadCanary, back)
	}
}
