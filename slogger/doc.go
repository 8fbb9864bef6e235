// Package slogger lets a program that logs with log/slog receive the log of castnet.
//
//	net, err := mesh.Connect(ctx, mesh.Options{Log: slogger.New(slog.Default())})
//
// The options of mesh, bus, gateway, agent/host, agent/proc, actor and system take a
// zerolog.Logger. New makes one that passes each line to a slog.Logger.
//
// # Contract
//
//   - SLOG-1 (lines survive): Each line keeps its level, its message and its attributes, in order.
//     Objects become groups. Levels trace, fatal and panic become Debug-4, Error+4 and Error+8.
//   - SLOG-2 (levels): The handler's Enabled decides at each line, so a slog.LevelVar may change
//     while the program runs. A line below the level is not encoded, except rate-limited ones.
//
// The logger may be used on any goroutine, as far as the handler may. A line without the form of
// zerolog becomes a record with the whole line as its message.
package slogger
