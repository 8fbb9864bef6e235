package castnet_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The events on `ev.` are a contract: the page has every step in the code, and no other.
func TestEventsPage_listsTheStepsInTheCode(t *testing.T) {
	literal := regexp.MustCompile(
		`"((?:procs|proc|hosts|host|mesh|world|rank|lease|controller)\.[a-z]+(?:\.[a-z]+)?)"`)
	finished := regexp.MustCompile(`emitStopResult\(ctx, "([a-z.]+)"`)
	var inCode []string
	for _, dir := range []string{"actor", "agent", "agent/host", "presence", "controller", "system", "mesh"} {
		files, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range finished.FindAllStringSubmatch(string(text), -1) {
				inCode = append(inCode, m[1]+".success", m[1]+".failed")
			}
			for _, m := range literal.FindAllStringSubmatch(finished.ReplaceAllString(string(text), ""), -1) {
				inCode = append(inCode, m[1])
			}
		}
	}
	page, err := os.ReadFile("docs/events.md")
	require.NoError(t, err)
	var onPage []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z.]+\\.[a-z]+)` \\|").
		FindAllStringSubmatch(string(page), -1) {
		onPage = append(onPage, m[1])
	}
	slices.Sort(inCode)
	slices.Sort(onPage)
	require.Equal(t, slices.Compact(inCode), onPage, "docs/events.md")
}
