// Package embed runs a nats-server inside this process.
//
//	srv, err := embed.Start(ctx, embed.Options{})
//	defer srv.Shutdown()
//	b, err := bus.Open(ctx, bus.Options{URL: srv.URL()})    // over loopback
//	b, err := bus.Open(ctx, bus.Options{Server: srv})       // without a socket
//
// It is for commands, tests and examples. A program that only uses the library connects to a server
// and does not carry one.
//
// # Options
//
// Three sources are merged: the fields of [Options], then nats-server's own configuration file,
// taken whole, then defaults for a mesh. By default a dead client is noticed in 15 s, and a client
// that does not read is cut after 5 s. Only the file configures accounts, clusters and leaf nodes.
//
// # Invariants
//
//   - EMB-1 (start and end): After Start the server is ready for connections, or it is gone and
//     the error names the address. Shutdown returns when its goroutines, listeners and temporary
//     directory are gone. It handles no signal and ends no process.
//   - EMB-2 (authentication): Off loopback, clients must authenticate (token, user, any scheme of
//     the configuration file, a verified client certificate), unless Insecure is set. The
//     configuration file's author protects any other listeners it opens.
//   - EMB-3 (tickets): With Tickets, the token permits all. A key or ticket permits what
//     subjects.Space.Grants lists for its user, until it expires. Other clients are refused. After
//     EndTicket its serial is refused and its connections are closed.
//
// # Details
//
// The server remembers the newest 65,536 serials that have ended.
//
// The temporary directory is that of a JetStream without a directory of its own.
//
// # Concurrency
//
// All methods are safe for concurrent use. In a testing/synctest bubble set DontListen, and
// Shutdown before the bubble ends. JetStream has one clock for the process: with it, call Register
// of nats-server's package server/ats once, outside any bubble.
//
// # Failure
//
// Start fails with a [*StartError] that names the address and the cause, and leaves nothing behind.
// Later faults are logged; clients see a lost connection.
package embed
