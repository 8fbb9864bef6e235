package golden

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cmd/client/internal/output"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// Check renders at 80 and at 120 columns, and compares with testdata/NAME.80.txt and NAME.120.txt.
// Lines of stderr have the prefix "stderr: ".
func Check(t *testing.T, name string, render func(out *output.Printer) error) {
	t.Helper()
	for _, width := range []int{80, 120} {
		var stdout, stderr bytes.Buffer
		out := &output.Printer{
			Format: output.Table, Stdout: &stdout, Stderr: &stderr, OutTTY: true, ErrTTY: true, Width: width,
		}
		err := render(out)
		for line := range strings.Lines(stderr.String()) {
			stdout.WriteString("stderr: " + line)
		}
		if err != nil {
			fmt.Fprintf(&stdout, "error: %v\n", err)
		}
		CheckText(t, fmt.Sprintf("%s.%d.txt", name, width), stdout.String())
	}
}

// CheckText compares a text with testdata/NAME.
func CheckText(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "go test -run Golden -update writes it")
	require.Equal(t, string(want), text, file)
}
