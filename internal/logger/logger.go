package logger

import (
	"os"
	"reflect"
	"time"

	"github.com/rs/zerolog"
)

// OrStderr returns l. For the zero Logger it returns one that writes warnings and errors to stderr.
// zerolog.Nop stays silent.
func OrStderr(l zerolog.Logger) zerolog.Logger {
	if !reflect.ValueOf(l).IsZero() {
		return l
	}
	out := zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true, TimeFormat: time.RFC3339}
	return zerolog.New(out).Level(zerolog.WarnLevel).With().Timestamp().Logger()
}
