package cli_test

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/internal/cli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is an environment without NATS contexts and without a hostd.
func machine(t *testing.T, vars map[string]string) func(string) string {
	t.Helper()
	own := map[string]string{"XDG_CONFIG_HOME": t.TempDir(), "XDG_RUNTIME_DIR": t.TempDir()}
	return func(key string) string {
		if v, ok := vars[key]; ok {
			return v
		}
		return own[key]
	}
}

// typed parses a command line's flags.
func typed(t *testing.T, args ...string) *cli.Connection {
	t.Helper()
	c := &cli.Connection{}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(fs)
	require.NoError(t, fs.Parse(args))
	return c
}
