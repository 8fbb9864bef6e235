// Package config holds every limit that a user of castnet may change. A key is typed and has a
// default, bounds, a variable name and a line of documentation. Values come from layers.
//
//	var c config.Config                                // one per process, made by its main
//	err := c.LoadEnv(os.Getenv)                        // CASTNET_MESH_SPAWN_TIMEOUT=2m
//	limit := config.MeshSpawnTimeout.Get(&c)           // 2m0s
//	err = config.MeshSpawnTimeout.Set(&c, time.Minute) // no effect yet: the variable overrides it
//
// # Layers
//
//   - CFG-1 (precedence): A key takes its value from the first layer that has one: override
//     (flags, tests), environment, runtime (Set), file, client (Push), default. Entries names the
//     source of each value.
//   - CFG-2 (replacement): LoadEnv, LoadFile and Push replace their layer as a whole, or change
//     nothing and return one error per mistake. An error names source, key, value and the expected
//     form. No layer holds a value outside its bounds.
//
// # Values from clients
//
//   - CFG-5 (snapshot): A Snapshot holds all values chosen in any layer, but no defaults and no
//     local keys. Its size has bounds. A receiver ignores and counts unknown keys, and refuses the
//     whole for a value out of bounds.
//
// # Details
//
// A Snapshot has pushed values too. A chosen value equal to the default is included, because the
// receiver's default may differ. Local keys are those of the bus connection, and those that
// protect the resources of a machine. Keys that are local to the receiver are ignored and counted.
//
// # Concurrency
//
// A Config is safe for concurrent use. Get takes no lock and does not allocate. Code that reads a
// key once at its start keeps that value. Keys are immutable. The zero Config and a nil *Config
// have all defaults. A nil *Config cannot be changed.
package config
