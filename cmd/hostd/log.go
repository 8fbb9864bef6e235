package main

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/cli"
)

// logLevels reads --log-level, for hostd and for its procs.
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

// console reports whether a person reads: as told, else if stderr is a terminal.
func (c config) console(stderr io.Writer) bool {
	return c.logFormat == "console" || c.logFormat == "" && isTerminal(stderr)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// logger writes for a person or for a machine.
func (c config) logger(stderr io.Writer, getenv func(string) string) zerolog.Logger {
	if !c.console(stderr) {
		return zerolog.New(stderr).Level(c.level).With().Timestamp().Logger()
	}
	plain := getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" || !isTerminal(stderr)
	w := zerolog.ConsoleWriter{Out: stderr, NoColor: plain, TimeFormat: time.TimeOnly}
	return zerolog.New(w).Level(c.level).With().Timestamp().Logger()
}
