package logger

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestOrStderr_printsWarningsWithoutALogger(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = write
	silent, zero := OrStderr(zerolog.Nop()), OrStderr(zerolog.Logger{})
	os.Stderr = stderr
	silent.Error().Msg("dropped")
	zero.Info().Msg("nor this")
	zero.Warn().Str("proc", "p").Msg("a warning")
	require.NoError(t, write.Close())
	said, err := io.ReadAll(read)
	require.NoError(t, err)
	require.Regexp(t, `^\S+ WRN a warning proc=p\n$`, string(said))

	var own bytes.Buffer
	given := OrStderr(zerolog.New(&own))
	given.Info().Msg("of its own")
	require.Contains(t, own.String(), "of its own")
}
