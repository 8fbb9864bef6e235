package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/config"
)

func TestKeys_haveUniqueNamesAndVariables(t *testing.T) {
	names, variables := map[string]bool{}, map[string]bool{}
	form := regexp.MustCompile(`^[a-z]+(-[a-z]+)*\.[a-z]+(-[a-z]+)*$`)
	for _, k := range config.Keys() {
		require.Regexp(t, form, k.Name)
		require.Regexp(t, `^CASTNET_[A-Z]+(_[A-Z]+)+$`, k.Env)
		require.NotContains(t, names, k.Name)
		require.NotContains(t, variables, k.Env, "%s: two names with only different dots and dashes", k.Name)
		names[k.Name], variables[k.Env] = true, true
		require.NotEmpty(t, k.Doc, k.Name)
		require.NotContains(t, k.Doc, "\n", "%s: one line", k.Name)
		require.NotEmpty(t, k.UsedBy, k.Name)
		require.NotContains(t, k.Doc, "|", "%s: it stands in a table", k.Name)
	}
}

// A default out of bounds, or in an unusual form, could not be pushed.
func TestKeys_everyDefaultParses(t *testing.T) {
	for _, k := range config.Keys() {
		var c config.Config
		require.NoError(t, c.Set(k.Name, k.Default))
		for _, e := range c.Entries() {
			if e.Name == k.Name {
				require.Equal(t, k.Default, e.Value)
				require.False(t, e.Changed)
			}
		}
	}
}

// Every default of Monarch is a valid value.
func TestKeys_monarchsDefaultsParse(t *testing.T) {
	for _, k := range config.Keys() {
		// a limit of 10 GiB for one message is too large for castnet
		if k.MonarchDefault == "" || k == config.DeliveryMaxMessage.Info() {
			continue
		}
		var c config.Config
		require.NoError(t, c.Set(k.Name, k.MonarchDefault), k.Name)
		for _, e := range c.Entries() {
			if e.Name == k.Name {
				require.Equal(t, k.MonarchDefault, e.Value)
			}
		}
	}
}

// A declared key outside the list would have the index of another.
func TestKeys_everyVariableIsListed(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	require.NoError(t, err)
	declared := 0
	for _, d := range f.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, s := range group.Specs {
			if s.(*ast.ValueSpec).Names[0].IsExported() {
				declared++
			}
		}
	}
	require.Len(t, config.Keys(), declared)
}

// A key without a reader would promise an effect that it does not have.
func TestKeys_areAllUsed(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	require.NoError(t, err)
	names := map[string]string{} // of variables, by key
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].IsExported() {
			name, err := strconv.Unquote(spec.Values[0].(*ast.CallExpr).Args[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			names[name] = spec.Names[0].Name
		}
		return true
	})
	var program strings.Builder
	sources(t, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") {
			program.WriteString(text)
		}
	})
	for _, k := range config.Keys() {
		require.Contains(t, program.String(), "."+names[k.Name]+".Get(", k.Name)
	}
}

// sources shows each Go file of the tree besides this package's.
func sources(t *testing.T, show func(path, text string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || filepath.Dir(path) == filepath.Join("..", "config"):
			return nil
		}
		text, err := os.ReadFile(path)
		show(path, string(text))
		return err
	}))
}

// Every variable of castnet is a key or is listed, so no user gets a warning about it.
func TestUnknownVariables_allowEveryVariableOfTheTree(t *testing.T) {
	variable := regexp.MustCompile(`"CASTNET_[A-Z_]*[A-Z]\b`)
	found := map[string]bool{}
	sources(t, func(_, text string) {
		for _, name := range variable.FindAllString(text, -1) {
			found[name[1:]] = true
		}
	})
	require.Contains(t, found, "CASTNET_PROC")
	for name := range found {
		require.Empty(t, config.UnknownVariables([]string{name + "=x"}), "list it in notKeys of config/load.go")
	}
}

func TestDurations_textRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(24*time.Hour)).Draw(t, "d"))
		var c config.Config
		require.NoError(t, config.AttachTimeout.Set(&c, d))
		var other config.Config
		_, err := other.Push(c.Snapshot())
		require.NoError(t, err)
		require.Equal(t, d, config.AttachTimeout.Get(&other))
	})
	for d, text := range map[time.Duration]string{
		2 * time.Minute: "2m", time.Hour: "1h", time.Hour + 30*time.Minute: "1h30m", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", time.Hour + time.Second: "1h0m1s", 40 * time.Second: "40s",
	} {
		var c config.Config
		require.NoError(t, config.AttachTimeout.Set(&c, d))
		require.Equal(t, text, c.Snapshot().Values["attach.timeout"])
	}
}

func TestSizes_textRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := config.Size(rapid.Int64Range(64<<10, 64<<30).Draw(t, "s"))
		var c config.Config
		require.NoError(t, c.Set("delivery.send-buffer-total", s.String()))
		require.Equal(t, s, config.DeliverySendBufferTotal.Get(&c))
	})
	for s, text := range map[config.Size]string{0: "0", 1: "1B", 1 << 10: "1KiB", 3 << 20: "3MiB",
		1<<30 + 1: "1073741825B", -1 << 10: "-1KiB"} {
		require.Equal(t, text, s.String())
	}
}

func TestBools_acceptShellAndYAMLWords(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "ON": true, "yes": true, "1": true, "False": false,
		"off": false, "no": false, "0": false} {
		var c config.Config
		require.NoError(t, c.Set("logs.forward", text))
		require.Equal(t, want, config.LogsForward.Get(&c), text)
	}
}

// No text makes a key panic, or set a value without a text. A refusal names the expected form.
func FuzzSet(f *testing.F) {
	for _, text := range []string{"", "30s", "-1h", "0", "256", "64MiB", "9223372036854775807GiB",
		"-9223372036854775808", "on", "warn", "1e9s", "\x00"} {
		f.Add(uint(3), text)
	}
	keys := config.Keys()
	f.Fuzz(func(t *testing.T, which uint, text string) {
		k := keys[which%uint(len(keys))]
		var c, other config.Config
		if err := c.Set(k.Name, text); err != nil {
			require.ErrorContains(t, err, k.Name+"=")
			require.ErrorContains(t, err, ": want ")
			require.Empty(t, c.Snapshot().Values)
			return
		}
		values := c.Snapshot().Values
		_, err := other.Push(config.Snapshot{Values: values})
		require.NoError(t, err)
		require.Equal(t, values, other.Snapshot().Values)
	})
}

// No foreign Snapshot makes a process panic, and an accepted one can be pushed on.
func FuzzPush(f *testing.F) {
	f.Add("proc.ready-timeout", "1m", "of.tomorrow", "?")
	f.Add("bus.connect-timeout", "1m", "", "")
	f.Fuzz(func(t *testing.T, a, x, b, y string) {
		var c config.Config
		s := config.Snapshot{Values: map[string]string{a: x, b: y}}
		ignored, err := c.Push(s)
		if err != nil {
			require.Empty(t, c.Snapshot().Values)
			require.Less(t, len(err.Error()), 2048)
			return
		}
		require.Len(t, c.Snapshot().Values, len(s.Values)-ignored)
	})
}
