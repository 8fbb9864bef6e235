// Package screen is the live screen of `castnet top`: a tree of hosts, ranks and actors, the
// details of one rank, events and logs.
//
// A state is a value. Its step takes a key, a sample, an event or lines of a log, and returns the
// next state with the effects that it wants; frame draws it as lines of text. Run connects both to
// a terminal and to a castnet:
//
//	err := screen.Run(ctx, conn, screen.Options{Interval: time.Second, Sort: "rate", Out: out})
//
// # Contract
//
//   - SCR-1 (pure): Steps and frames are functions of the state and its input. They ask nothing,
//     and no wait blocks a key.
//   - SCR-2 (bounded work): With more than 1,024 procs, only hosts and ranks on the screen are
//     asked for messages. Samples take at most a fifth of the time, or run every 10 s. 500 events
//     and 1,000 lines are kept.
//   - SCR-3 (trouble in words): Silent hosts, ended ranks and meshes, a lost bus and old numbers
//     are words on the screen. An end shows before the next sample.
//   - SCR-4 (plain terminals): A frame has exactly the size of the terminal. Colours only repeat
//     words. Texts from the bus control no terminal.
//
// # Details
//
// One goroutine samples, one receives events, one follows a log. Run waits for all of them.
package screen
