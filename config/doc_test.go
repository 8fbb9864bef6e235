package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/config"
)

// page is the documentation of the keys.
const page = "../docs/configuration.md"

func TestPage_listsEveryKey(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n"+tableHead)
	require.True(t, found, "the page has the table:\n%s", tableHead)
	rows, _, _ := strings.Cut(rest, "\n\n")
	require.Equal(t, table(), tableHead+rows+"\n", "the table in %s", page)
}

func TestPage_listsTheLayersInOrder(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	at := -1
	for i, l := range config.Layers() {
		next := strings.Index(string(text), fmt.Sprintf("\n| %d | `%s` |", i+1, l))
		require.Greater(t, next, at, "layer %s", l)
		at = next
	}
}

const tableHead = "| key | variable | default | Monarch's | bounds | meaning | kept by " +
	"|\n|---|---|---|---|---|---|---|\n"

// table is the one the page must have.
func table() string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, k := range config.Keys() {
		meaning := k.Doc
		if k.Local {
			meaning += "; *local*"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s | %s |\n",
			k.Name, k.Env, k.Default, k.MonarchDefault, bounds(k), meaning, k.UsedBy)
	}
	return b.String()
}

func bounds(k config.Info) string {
	if k.Bounds == "" {
		return "true or false"
	}
	return k.Bounds
}
