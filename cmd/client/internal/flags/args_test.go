package flags

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShieldNumbers_keepsNegativeNumbersFromBeingFlags(t *testing.T) {
	require.Equal(t,
		[]string{"call", "m", "counter", "add", " -5", "--tail", "-1", "-f", "-o", "json"},
		EscapeNegativeNumbers([]string{"call", "m", "counter", "add", "-5", "--tail", "-1", "-f", "-o", "json"}))
}
