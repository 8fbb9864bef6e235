package castnet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wallClocks are the files that strip the monotonic clock from a time, each with the reason why a
// step of the wall clock is harmless there. Elsewhere times are compared as they were read, and
// durations travel. So no step ends a lease, a deadline or a host.
var wallClocks = map[string]string{
	"agent/host/store.go": "numbers that grow, whatever the clock does: the last one is " +
		"written down",
	"agent/state.go":                         "the name of a host's life, compared with itself alone",
	"agent/host/log_requests.go":             "for people: when a line was printed",
	"agent/messages.go":                      "for people: when a line was printed",
	"cmd/client/internal/events/view.go":     "for people",
	"cmd/client/internal/flags/flags.go":     "a time that a person names",
	"cmd/client/internal/logs/view.go":       "for people",
	"cmd/client/internal/heldmesh/attach.go": "for people",
	"examples/callout/main.go":               "JWTs have times of the wall clock",
	"internal/auth/host_key.go":              "JWTs have times of the wall clock",
	"internal/auth/authority.go":             "JWTs have times of the wall clock; the server's decides",
	"bus/credential.go":                      "after a step a renewal is early, or the server ends the connection, which then renews",
	"internal/logfile/follow.go": "looks of many at a file are spread; the next one is at most a " +
		"period away",
	"internal/launch/handle_linux.go": "a deadline in the past",
	"bus/ticket/ticket.go":            "keys expire by the clock of the server",
	"internal/micro/micro.go":         "for people: since when a service runs",
}

// takesApart are the methods and functions with a result without a monotonic clock.
var takesApart = []string{
	"Unix", "UnixMilli", "UnixMicro", "UnixNano", "UTC", "Local", "AddDate",
	"time.Unix", "time.UnixMilli", "time.UnixMicro", "time.Date", "time.Parse",
}

func TestF24_usesOfTheWallClockAreListed(t *testing.T) {
	found := map[string][]string{}
	eachCall(t, func(path string, _ *ast.File, s *ast.SelectorExpr, call *ast.CallExpr, at token.Position) {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "integration/") &&
			looksAtTheWall(s, call) {
			found[path] = append(found[path], at.String())
		}
	})
	requireListed(t, found, wallClocks, "times that come from the wall clock jump with it")
}

// eachCall visits the calls pkg.F() and x.F() of every file of the system and its tests. Benchmarks
// and fault injection are apart.
func eachCall(t *testing.T, visit func(path string, file *ast.File, s *ast.SelectorExpr, call *ast.CallExpr,
	at token.Position)) {
	t.Helper()
	files := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (skipped(d.Name()) || path == "bench" || path == "integration/faults" || path == "tools"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if s, ok := call.Fun.(*ast.SelectorExpr); ok {
					visit(path, file, s, call, files.Position(call.Pos()))
				}
			}
			return true
		})
		return nil
	}))
}

// requireListed fails for a found file outside the list, and for a listed file that was not found.
func requireListed(t *testing.T, found map[string][]string, listed map[string]string, why string) {
	t.Helper()
	for path, at := range found {
		require.NotEmpty(t, listed[path], "%v is not listed: %s", at, why)
	}
	for path := range listed {
		require.NotEmpty(t, found[path], "%s is listed for nothing", path)
	}
}

func looksAtTheWall(s *ast.SelectorExpr, call *ast.CallExpr) bool {
	if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "time" {
		return slices.Contains(takesApart, "time."+s.Sel.Name)
	}
	if len(call.Args) == 1 && s.Sel.Name == "Round" { // by 0, which strips; else it is mostly one of a duration
		zero, ok := call.Args[0].(*ast.BasicLit)
		return ok && zero.Value == "0"
	}
	return slices.Contains(takesApart, s.Sel.Name)
}
