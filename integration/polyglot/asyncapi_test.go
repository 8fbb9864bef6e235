package polyglot

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// asyncAPI is the tested part of spec/asyncapi.yaml.
type asyncAPI struct {
	Channels map[string]struct {
		Address    string
		Parameters map[string]parameter
	}
	Components struct {
		Parameters map[string]parameter
		Messages   map[string]struct {
			Headers struct{ Properties map[string]any }
		}
		Schemas map[string]struct{ Properties map[string]any }
	}
}

type parameter struct {
	Ref      string `yaml:"$ref"`
	Examples []string
}

func readAsyncAPI(t *testing.T) (a asyncAPI) {
	t.Helper()
	text, err := os.ReadFile(repo(t, "spec", "asyncapi.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &a))
	return a
}

func TestAsyncAPI_listsTheSubjectsOfTheCode(t *testing.T) { // PLY-1
	a := readAsyncAPI(t)
	placeholder := regexp.MustCompile(`\{(\w+)\}`)
	var kinds []string
	for name, c := range a.Channels {
		if c.Address == "" { // the reply subject, which the client chooses
			continue
		}
		example := placeholder.ReplaceAllStringFunc(c.Address, func(p string) string {
			param := c.Parameters[strings.Trim(p, "{}")]
			if ref := strings.TrimPrefix(param.Ref, "#/components/parameters/"); ref != "" {
				param = a.Components.Parameters[ref]
			}
			require.NotEmpty(t, param.Examples, "%s: %s has no example", name, p)
			return param.Examples[0]
		})
		s, err := subjects.Space{}.Parse(example)
		require.NoError(t, err, name)
		form := placeholder.ReplaceAllString(strings.TrimPrefix(c.Address, subjects.Space{}.String()+"."), "<$1>")
		require.Equal(t, s.Kind.Pattern(), form, name)
		kinds = append(kinds, s.Kind.String())
	}
	require.ElementsMatch(t, []string{"cast", "k", "p", "hr", "hv", "ev", "hb", "log"}, kinds)
}

func TestAsyncAPI_listsTheFieldsOfTheCode(t *testing.T) {
	a := readAsyncAPI(t)
	for name, v := range map[string]any{
		"HostInfo": agent.HostInfo{}, "State": agent.State{}, "LogTail": agent.LogTail{}, "Event": actor.Event{},
	} {
		var fields []string
		for f := range reflect.TypeOf(v).Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, key)
		}
		require.ElementsMatch(t, fields, slices.Collect(maps.Keys(a.Components.Schemas[name].Properties)), name)
	}
}

func TestAsyncAPI_listsTheHeadersOfTheCDDL(t *testing.T) {
	a := readAsyncAPI(t)
	all := map[string]bool{}
	for _, m := range a.Components.Messages {
		for key := range m.Headers.Properties {
			all[key] = true
		}
	}
	require.Equal(t, headersInCDDL(t), all)
}

func TestREADME_listsTheCodesOfTheCode(t *testing.T) {
	code, err := os.ReadFile(repo(t, "actor", "errors.go"))
	require.NoError(t, err)
	readme, err := os.ReadFile(repo(t, "spec", "README.md"))
	require.NoError(t, err)
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\tCode\w+ +Code = (\d+) +// (.*)$`).
		FindAllStringSubmatch(string(code), -1) {
		want = append(want, "| "+m[1]+" | "+m[2]+" |")
	}
	require.NotEmpty(t, want)
	got := regexp.MustCompile(`(?m)^\| \d+ \| .* \|$`).FindAllString(string(readme), -1)
	require.Equal(t, want, got)
}
