package main

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/cli"
)

// logLevels parses --log-level for hostd and its procs.
func logLevels(said string) (level zerolog.Level, procs string, err error) {
	switch said {
	case "":
		return zerolog.InfoLevel, "", nil
	case "debug", "info", "warn", "error":
		level, err = zerolog.ParseLevel(said)
		return level, said, err
	}
	return level, "", cli.Usagef("--log-level %q: want debug, info, warn or error", said)
}

// usesConsole reports whether to log for a person: as configured, or if stderr is a terminal.
func (c config) usesConsole(stderr io.Writer) bool {
	return c.logFormat == "console" || c.logFormat == "" && isTerminal(stderr)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// logger returns a logger for a person or for a machine.
func (c config) logger(stderr io.Writer, getenv func(string) string) zerolog.Logger {
	if !c.usesConsole(stderr) {
		return zerolog.New(stderr).Level(c.level).With().Timestamp().Logger()
	}
	plain := getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" || !isTerminal(stderr)
	w := zerolog.ConsoleWriter{Out: stderr, NoColor: plain, TimeFormat: time.TimeOnly}
	return zerolog.New(w).Level(c.level).With().Timestamp().Logger()
}
