package heldmesh

import (
	"testing"

	"github.com/stretchr/testify/require"
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
