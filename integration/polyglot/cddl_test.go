package polyglot

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// wireField is one numbered key of a struct, in the terms of CDDL.
type wireField struct {
	Key      string
	Optional bool
	Type     string
	Name     string
}

func TestCDDL_hasTheKeysOfEachWireStruct(t *testing.T) { // PLY-1
	inCode := map[string][]wireField{}
	for _, pkg := range []string{"internal/wire", "cast"} {
		for name, fields := range structsOf(t, repo(t, pkg)) {
			inCode[pkg+"."+name] = fields
		}
	}
	delete(inCode, "cast.KindCount") // of the metrics of agents, whose messages are Go's alone
	require.NotEmpty(t, inCode["cast.header"])
	require.Equal(t, inCode, structsInCDDL(t), "spec/wire.cddl and the code differ")

	here := structsOf(t, ".")
	require.NotEmpty(t, here)
	for name, fields := range here {
		require.Equal(t, inCode["cast."+name], fields, "packets_test.go has another %s than package cast", name)
	}
}

func TestCDDL_namesTheHeadersOfTheCode(t *testing.T) { // PLY-1
	inCode := map[string]bool{}
	header := regexp.MustCompile(
		`^"(Castnet-[A-Za-z-]*[a-zA-Z]|Nats-(?:Service|Trace)-[A-Za-z-]+|Content-Type|traceparent)"$`)
	for _, pkg := range []string{"actor", "gateway", "internal/builtin", "internal/wire"} {
		eachFile(t, repo(t, pkg), func(f *ast.File) {
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if m := header.FindStringSubmatch(lit.Value); m != nil {
						inCode[m[1]] = true
					}
				}
				return true
			})
		})
	}
	require.Equal(t, inCode, headersInCDDL(t))
}

// headersInCDDL are the texts that are keys, but for those of a body.
func headersInCDDL(t *testing.T) map[string]bool {
	t.Helper()
	cddl, err := os.ReadFile(repo(t, "spec", "wire.cddl"))
	require.NoError(t, err)
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  \??\s*"([A-Z][A-Za-z-]+|traceparent)":`).
		FindAllStringSubmatch(string(cddl), -1) {
		all[m[1]] = true
	}
	return all
}

// structsInCDDL reads the rules with the name of a Go struct.
func structsInCDDL(t *testing.T) map[string][]wireField {
	cddl, err := os.ReadFile(repo(t, "spec", "wire.cddl"))
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^; Go: ([a-z/]+\.[A-Za-z]+)[^{]*?^([a-z-]+) = \{\n((?:  .*\n)*)\}`)
	field := regexp.MustCompile(`^  (\? )?(\d+) => (.*),\s+; (\w+)`)
	all := map[string][]wireField{}
	for _, m := range rule.FindAllStringSubmatch(string(cddl), -1) {
		goName := m[1][strings.LastIndexByte(m[1], '.')+1:]
		require.Equal(t, kebab(goName), m[2], "the rule of %s", m[1])
		for line := range strings.Lines(m[3]) {
			f := field.FindStringSubmatch(line)
			require.NotNil(t, f, "%s: want `key => type, ; Name`: %q", m[2], line)
			all[m[1]] = append(all[m[1]], wireField{f[2], f[1] != "", generic(f[3]), f[4]})
		}
	}
	return all
}

// generic is the CDDL type of a Go type, as far as that determines it.
func generic(cddl string) string {
	cddl = strings.ReplaceAll(cddl, "port-id", "tstr")
	if strings.HasPrefix(cddl, "bstr .cbor ") {
		return "bstr"
	}
	return cddl
}

// structsOf reads the structs with numbered keys in a package's sources.
func structsOf(t *testing.T, dir string) map[string][]wireField {
	all := map[string][]wireField{}
	eachFile(t, dir, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range st.Fields.List {
					if wf, ok := numbered(t, field); ok {
						all[spec.Name.Name] = append(all[spec.Name.Name], wf)
					}
				}
			}
			return true
		})
	})
	return all
}

// eachFile parses the Go files of a folder: here the tests, elsewhere all but the tests.
func eachFile(t *testing.T, dir string, f func(*ast.File)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, "%s has no Go files", dir)
	for _, path := range paths {
		if dir != "." && strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		f(file)
	}
}

func numbered(t *testing.T, field *ast.Field) (wireField, bool) {
	if field.Tag == nil || len(field.Names) != 1 {
		return wireField{}, false
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	require.NoError(t, err)
	parts := strings.Split(reflect.StructTag(tag).Get("cbor"), ",")
	if len(parts) < 2 || parts[1] != "keyasint" {
		return wireField{}, false
	}
	return wireField{parts[0], len(parts) > 2 && parts[2] == "omitempty", cddlType(field.Type),
		field.Names[0].Name}, true
}

// cddlType is the CDDL of a Go type.
func cddlType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return cddlType(e.X)
	case *ast.SelectorExpr:
		return kebab(e.Sel.Name)
	case *ast.ArrayType:
		if id, ok := e.Elt.(*ast.Ident); ok && id.Name == "byte" {
			return "bstr"
		}
		return "[* " + cddlType(e.Elt) + "]"
	case *ast.Ident:
		switch e.Name {
		case "uint16", "uint32", "uint64":
			return "uint"
		case "string":
			return "tstr"
		}
		return kebab(e.Name)
	}
	return "?"
}

// kebab turns StateOf into state-of.
func kebab(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && unicode.IsUpper(c) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
