// Package bus is the access to NATS, and the only importer of nats.go. It knows no IDs and no
// actors: subjects are strings, payloads are bytes.
//
//	b, err := bus.Open(ctx, bus.FromEnv(os.Getenv))
//	defer b.Close(ctx)
//	sub, err := b.Data().Subscribe("greet.*", func(m bus.Msg) { … })
//	err = b.Data().Publish("greet.you", []byte("hello"))
//	reply, err := b.Control().Request(ctx, bus.Msg{Subject: "time"})
//
// A [Bus] is two connections. [Bus.Data] carries messages and casts, and does not receive its own.
// [Bus.Control] carries heartbeats, acks and stops. On one connection they would wait behind the
// data's backlog.
//
// Each is a [Conn] with one Inbox: a queue for all its subscriptions. One pump goroutine hands the
// queue's messages to their handlers. A lossy Inbox ([Conn.Lossy]) is a second queue with its own
// pump, for subjects open to plain clients.
//
// # Invariants
//
//   - BUS-1 (order): Messages published by one Conn arrive at one Inbox in publish order, across
//     all its subjects, for one connection's life. A reconnect ends the order: State reports it,
//     and the caller restores the order.
//   - BUS-2 (no silent loss): A full Inbox reconnects once half of it is handled; a lossy one drops
//     and counts. A refused subscription or a permanent end breaks the Bus. Each refused publish is
//     a Denied State, in order. Publishing without a server fails.
//   - BUS-3 (interest): After Subscribe and at each Reconnected State, our server has the interest,
//     so a peer may send at once. That is transitive with one server or a hub and leaves. In a
//     full-mesh cluster only an end-to-end reply proves it.
//   - BUS-4 (authentication): A server off this machine without authentication is refused, on the
//     first connect and on every reconnect, unless Insecure is set. With a Fingerprint, so is a
//     server whose chain of certificates does not come from that key.
//   - BUS-5 (handlers): When Close returns no handler runs and none will. A panic in a handler is
//     logged with its stack and breaks the Bus; a peer's bytes never end the process.
//   - BUS-7 (KV): Of several writers of a key in a KV bucket one succeeds: each names the revision
//     it replaces. Without JetStream, opening a bucket returns ErrNoJetStream; without a leader or
//     a quorum, ErrJetStreamUnavailable.
//   - BUS-8 (answers): A request ignores replies refused by its caller, such as the acknowledgement
//     of a stream, and counts them (IgnoredReplies). A quiet period begins with an answer only.
//   - BUS-9 (renewal): With Creds or UserJWT each connect uses the credentials of then. Before they
//     end, the connections reconnect with new ones, one after the other. A refusal is retried until
//     Options.RefusedTimeout; then the Bus breaks.
//
// BUS-2 does not cover NATS itself: a message without a subscriber, or in flight on a lost
// connection, vanishes. internal/link covers that gap.
//
// # Concurrency
//
// All methods of Bus, Conn, Inbox and Sub are safe for concurrent use. Handlers of one Inbox never
// run concurrently; those of two may. A handler must not wait. It may publish and unsubscribe.
// Subscribes, drains, flushes and requests belong in another goroutine, and Close called from a
// handler would wait for itself. Publish may wait for the socket, at most 5 s; then the connection
// is dropped and restored.
//
// Every wait has a deadline: 5 s for Flush, Subscribe, Drain and Close, 30 s for requests, unless
// the context has its own. In a testing/synctest bubble the whole package works with an in-process
// server.
//
// # Failure
//
// There are three grades. An error of one call concerns that call. A lost connection is restored
// for ever, subscriptions included; meanwhile publishes fail with [ErrDisconnected], and
// [Options].OnState reports the state. A broken Bus has ended: Done is closed, Err has the reason,
// every call returns [ErrClosed], and both connections are closed. Close must still be called.
//
// # Local servers
//
// A server for the programs of one user on one machine leaves its URL, token and TLS in a file (see
// [LocalServer]); [FromEnv] reads it last. A file writable by others is refused. If the connection
// then fails, the error mentions that.
package bus
