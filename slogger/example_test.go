package slogger_test

import (
	"log/slog"
	"os"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/slogger"
)

// The log of castnet goes to the handler of a program.
func ExampleNew() {
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	program := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))

	o := bus.Options{Log: slogger.New(program)} // or mesh.Options, gateway.Options, …
	o.Log.Warn().Str("host", "n07").Msg("lease expired")
	o.Log.Debug().Msg("not shown: the handler begins with Info")
	// Output: level=WARN msg="lease expired" host=n07
}
