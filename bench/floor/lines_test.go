package floor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/local/lines"
)

func TestParse_readsValuesAndFailures(t *testing.T) {
	values, err := lines.Parse(lines.Values(1.5, 0, 2e9))
	require.NoError(t, err)
	require.Equal(t, []float64{1.5, 0, 2e9}, values)
	_, err = lines.Parse(lines.Failure(errors.New("no\n\"room\"")))
	require.EqualError(t, err, "no\n\"room\"")
}

func TestParse_refusesMalformedAnswers(t *testing.T) {
	for _, line := range []string{"", "values", "values x", "values 1 x", "error", "error unquoted", "hello 5"} {
		_, err := lines.Parse(line)
		require.ErrorContains(t, err, "want values and numbers, or error and a quoted text", line)
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"values 1.5 2", `error "no"`, "values", "\x00"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if _, err := lines.Parse(line); err == nil {
			require.True(t, strings.HasPrefix(line, "values "), "%q is an answer with values", line)
		}
	})
}
