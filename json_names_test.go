package castnet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// foreignNames are files with the JSON names of another project.
var foreignNames = map[string]string{
	"bus/absent.go":                     "events of a nats-server",
	"bus/credential.go":                 "claims of a JWT",
	"cmd/client/internal/doctor/bus.go": "limits of a NATS account",
	"internal/cli/nats_context.go":      "context files of the nats command",
	"internal/micro/micro.go":           "the micro protocol of NATS",
}

// otherNames are fields with a JSON name clearer than their Go name.
var otherNames = map[string]string{
	"Error.Text":   "error",  // {"error": "…"} is what clients of HTTP and NATS expect
	"Coverage.P50": "p50_ms", // a number without a unit says nothing
	"Coverage.P99": "p99_ms",
}

var (
	acronym = regexp.MustCompile(`([A-Z]+)([A-Z][a-z])`)
	word    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// snakeCase returns the JSON name of a Go field.
func snakeCase(field string) string {
	field = strings.ReplaceAll(field, "CPUs", "Cpus")
	field = acronym.ReplaceAllString(field, "${1}_$2")
	return strings.ToLower(word.ReplaceAllString(field, "${1}_$2"))
}

func TestJSON_namesAreTheFieldsNames(t *testing.T) {
	used := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "bench/") || foreignNames[filepath.ToSlash(path)] != "" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			structure, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range structure.Fields.List {
				if field.Tag == nil || len(field.Names) == 0 {
					continue
				}
				tag, err := strconv.Unquote(field.Tag.Value)
				require.NoError(t, err)
				name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				if name == "" || name == "-" {
					continue
				}
				used++
				at := spec.Name.Name + "." + field.Names[0].Name
				want := snakeCase(field.Names[0].Name)
				if other := otherNames[at]; other != "" {
					want = other
				}
				require.Equal(t, want, name, "%s: the JSON name of %s", path, at)
			}
			return true
		})
		return nil
	}))
	require.Greater(t, used, 300)
}
