package castnet_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArchitecture_flowsNameFilesThatExist(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	_, flows, found := strings.Cut(string(text), "## Where to read each flow\n")
	require.True(t, found)
	flows, _, _ = strings.Cut(flows, "\n## ")
	file := regexp.MustCompile(`[a-z_/]+\.go`)
	named := 0
	for line := range strings.Lines(flows) {
		folder := ""
		for _, path := range file.FindAllString(line, -1) {
			if !strings.Contains(path, "/") {
				path = filepath.Join(folder, path)
			}
			folder = filepath.Dir(path)
			require.FileExists(t, path, "%s", line)
			named++
		}
	}
	require.Greater(t, named, 30)
}
