// Package cli is shared by the commands: bus connection, exit codes and error output.
//
//	var conn cli.Connection
//	conn.Flags(root.PersistentFlags())
//	…
//	options, err := conn.Options(os.Getenv)      // in a command's RunE
//	b, err := bus.Open(ctx, options)
//	…
//	os.Exit(cli.Execute(ctx, root, os.Stderr))   // in main
//
// # Bus address
//
//   - CLI-1 (precedence): A setting comes from the first of these sources: flag, NATS_… variable,
//     NATS context, file of this machine's hostd, default. An identity comes whole from one
//     source, as do a certificate with its key, and an authority or TLS fingerprint.
//
// The context is that of --context or NATS_CONTEXT. Without a URL it can also be the one chosen by
// `nats context select`. Contexts are files of the nats command. Only this package reads them.
//
// An identity is creds, nkey, user and password, token, or JWT and seed. Only a password or seed
// may come from a later source. The URL of this machine's hostd needs no token and no TLS
// settings: the same file has them. Variables are read as in bus.FromEnv.
//
// # End of a command
//
//   - CLI-5 (end of a command): An error is one line on standard error that begins with the
//     command's name. The exit code tells scripts the kind of failure, see the constants. ExitCode
//     maps every error of castnet's packages.
//
// WithCode sets the code of other errors. A usage error adds the usage line and where to find help.
//
// # Configuration files
//
//   - CLI-7 (config file): A file of keys is YAML, nested or dotted. ReadConfigFile reads it for
//     config.Config. WriteConfig prints the effective values. Errors have line and column. A
//     duplicate key is an error.
//
// Values of this package belong to one goroutine. The package does not use the network.
package cli
