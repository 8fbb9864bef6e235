package castnet_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// decoders are the files that read JSON themselves. Each has its fuzzer for the bound of WIRE-6, or
// the reason why its bytes never come over the bus. internal/wire measures its own readers.
var decoders = map[string]string{

	"agent/claim.go":                              "agent.FuzzAgentMessages",
	"agent/host_discovery.go":                     "agent.FuzzIntroduction",
	"presence/disconnects.go":                     "presence.FuzzWatcherInput",
	"agent/table.go":                              "agent.FuzzAgentMessages",
	"bus/absent.go":                               "bus.FuzzServerAnswer",
	"bus/credential.go":                           "bus.FuzzUserJWT",
	"bus/local_server.go":                         "bus.FuzzParseLocal",
	"internal/auth/push.go":                       "internal/auth.FuzzPush",
	"internal/auth/host_key.go":                   "internal/auth.FuzzHostKey",
	"internal/auth/files.go":                      "its own file",
	"gateway/claims.go":                           "gateway.FuzzPeerMessage",
	"cmd/client/internal/doctor/bus.go":           "cmd/client/internal/doctor.FuzzDoctor",
	"cmd/client/internal/doctor/hosts.go":         "cmd/client/internal/doctor.FuzzDoctor",
	"cmd/client/internal/doctor/listeners.go":     "cmd/client/internal/doctor.FuzzDoctor",
	"system/errors.go":                            "system.FuzzRecords",
	"system/find.go":                              "system.FuzzRecords",
	"internal/cli/config.go":                      "internal/cli.FuzzParseConfig",
	"internal/wire/codec.go":                      "internal/wire.FuzzUnmarshal",
	"internal/wire/json.go":                       "internal/builtin.FuzzFromJSON",
	"internal/wire/measure_json.go":               "internal/wire.FuzzUnmarshal",
	"shape/packed.go":                             "shape.FuzzPacked",
	"internal/page/act.go":                        "a request with the token of the page, of 1 MiB at most",
	"agent/host/store.go":                         "its own file",
	"slogger/slogger.go":                          "lines of zerolog, encoded in this process",
	"cmd/hostd/server_state.go":                   "its own file",
	"internal/cli/yaml.go":                        "a file of the command's user",
	"internal/cli/nats_context.go":                "a file of the command's user",
	"cmd/client/internal/mcpserver/parameters.go": "cmd/client/internal/mcpserver.FuzzRead",
	"cmd/client/internal/mcpserver/shorten.go":    "cmd/client/internal/mcpserver.FuzzShorten",
}

func TestDecoders_eachIsListedWithItsFuzzer_REPO4(t *testing.T) {
	found := map[string][]string{}
	eachCall(t, func(path string, _ *ast.File, s *ast.SelectorExpr, _ *ast.CallExpr, at token.Position) {
		pkg, ok := s.X.(*ast.Ident)
		reads := ok && slices.Contains([]string{"json", "yaml", "xml", "gob", "cbor"}, pkg.Name) &&
			slices.Contains([]string{"Unmarshal", "NewDecoder"}, s.Sel.Name)
		if reads && !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "examples/") {
			found[path] = append(found[path], at.String())
		}
	})
	requireListed(t, found, decoders, "bytes of strangers are read by internal/wire, or by who is fuzzed")
	fuzzers := fuzzTests(t)
	for path, how := range decoders {
		if strings.Contains(how, ".Fuzz") {
			require.Contains(t, fuzzers, how, path)
		}
	}
}

// fuzzTests are all fuzzers, each with its directory in front.
func fuzzTests(t *testing.T) (all []string) {
	t.Helper()
	fuzz := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range fuzz.FindAllSubmatch(text, -1) {
			all = append(all, filepath.ToSlash(filepath.Dir(path))+"."+string(m[1]))
		}
		return err
	}))
	return all
}
