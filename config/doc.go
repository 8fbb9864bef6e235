// Package config holds every limit that a user of castnet may change. A key is typed and has a
// default, bounds, a variable name and a line of documentation. Values come from layers.
//
//	var c config.Config                             // one per process, made by its main
//	err := c.LoadEnv(os.Getenv)                     // CASTNET_PROC_SPAWN_IDLE=2m
//	limit := config.ProcSpawnIdle.Get(&c)           // 2m0s
//	err = config.ProcSpawnIdle.Set(&c, time.Minute) // no effect yet: the variable overrides it
//
// # Layers
//
//   - CFG-1 (precedence): A key takes its value from the first layer that has one: override (flags,
//     tests), environment, runtime (Set), file, client (Push), default. Settings at the process
//     override the client's.
//   - CFG-2 (replacement): LoadEnv, LoadFile and Push replace their layer as a whole, or return an
//     error and change nothing. They are idempotent.
//   - CFG-3 (errors): An error names the source, the key, the value and the expected form, one
//     error per mistake. No layer holds a value outside its bounds.
//   - CFG-4 (sources): Entries names the source of each value.
//
// # Values from clients
//
//   - CFG-5 (snapshot): A Snapshot holds all values chosen in any layer, pushed ones included, and
//     no defaults. A chosen value equal to the default is included, because the receiver's default
//     may differ.
//   - CFG-6 (local keys): Local keys never leave their process: those of the bus connection, and
//     those that protect the resources of a machine.
//   - CFG-7 (bounds): A Snapshot has bounds. Keys that are unknown or local here are ignored and
//     counted. A value out of bounds refuses the whole.
//
// # Concurrency
//
// A Config is safe for concurrent use. Get takes no lock and does not allocate. Code that reads a
// key once at its start keeps that value. Keys are immutable. The zero Config and a nil *Config
// have all defaults. A nil *Config cannot be changed.
package config
