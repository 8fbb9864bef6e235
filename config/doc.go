// Package config holds every limit that a user of castnet may want to change: as typed keys, each
// with a default, bounds, the name of a variable and a line of documentation, and as the layers
// that values come from.
//
//	var c config.Config                             // one per process, made by its main
//	err := c.From(os.Getenv)                        // CASTNET_PROC_SPAWN_IDLE=2m
//	limit := config.ProcSpawnIdle.Get(&c)           // 2m0s
//	err = config.ProcSpawnIdle.Set(&c, time.Minute) // has no effect yet: the variable goes before it
//
// # Layers
//
//   - CFG-1: a key has the value of the first of these layers that says one: override (flags, tests),
//     environment, runtime (Set), file, client (Push), default. Who is nearer to a process knows it
//     better: a client does not overrule what was said where it runs.
//   - CFG-2: From, FromFile and Push replace their layer as a whole, or leave it as it was and say
//     why. Doing it again changes nothing.
//   - CFG-3: an error names the place, the key, the value and what was wanted, and there is one for
//     each mistake. A value that is not in its bounds never gets into a layer.
//   - CFG-4: Entries tells where each value comes from.
//
// # What a client pushes
//
//   - CFG-5: a Snapshot holds the values that somebody chose, in any layer, and no defaults.
//     What was pushed to a process is part of what it pushes on. With the defaults in it every value
//     of a proc would come "from the client", nobody could tell what was chosen, and a client of an
//     older build would bring its defaults along. A value that was chosen travels even when it is
//     the default here, for it may not be there.
//   - CFG-6: keys that are local never travel: those that say how a process reaches its bus, and
//     those that guard the resources of a machine, which are its operator's to say.
//   - CFG-7: what a Snapshot holds is bounded, and read with mistrust: keys that this build does not
//     know, or keeps to itself, are ignored and counted; a value out of bounds refuses the whole.
//
// # Concurrency
//
// A Config may be used by any goroutine. Get takes no lock and allocates nothing; what reads a key
// once, when it starts, keeps that value. Keys are immutable. A nil *Config has all defaults, and
// cannot be changed; the zero Config has all defaults, too.
package config
