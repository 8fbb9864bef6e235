// Package cli is what the commands share: how they reach the bus, how they end, and what they say
// when something is wrong.
//
//	var conn cli.Connection
//	conn.Flags(root.PersistentFlags())
//	…
//	options, err := conn.Options(os.Getenv)      // in a command's RunE
//	b, err := bus.Open(ctx, options)
//	…
//	os.Exit(cli.Execute(ctx, root, os.Stderr))   // in main
//
// # Where the bus is
//
//   - CLI-1: each setting comes from the first of these that has it: the flag, the NATS_…
//     variable (as bus.FromEnv reads them), the NATS context, the file of the hostd on this
//     machine, the default.
//   - CLI-2: the context is the one that --context or NATS_CONTEXT names, else the one that
//     `nats context select` chose; the latter only when nothing says a URL. Contexts are the files
//     of the nats command line, read here and nowhere else.
//   - CLI-3: an identity (creds, nkey, user and password, token, JWT and seed) comes whole from
//     the first source that has any, so that a flag is never mixed with a variable for somebody
//     else. A certificate and its key likewise. Only a password or seed, which people keep apart
//     from the name, may come from a later source.
//   - CLI-4: a URL that is said and is that of this machine's hostd needs no token: it is in the
//     same file.
//
// # How a command ends
//
//   - CLI-5: the exit code tells a script what happened; see the constants. ExitCode maps every
//     error of the packages of castnet, and WithCode says it where the error does not.
//   - CLI-6: an error is one line on the standard error that begins with the command's name; a
//     wrong command line adds the usage line and where help is.
//
// # Configuration files
//
//   - CLI-7: a file of keys is YAML, nested or dotted: ConfigFile reads it for config.Config, which
//     knows the keys, and WriteConfig prints what came of it. Whatever is wrong is said with line and
//     column, of a file that is no YAML with what its parser knows; a key may be said once.
//
// Values of this package belong to one goroutine. Nothing here waits for the network.
package cli
