// Package bus is the way to NATS, and the only importer of nats.go. It knows no
// IDs and no actors: subjects are strings, payloads are bytes.
//
//	b, err := bus.Open(ctx, bus.FromEnv(os.Getenv))
//	defer b.Close(ctx)
//	sub, err := b.Data().Subscribe("greet.*", func(m bus.Msg) { … })
//	err = b.Data().Publish("greet.you", []byte("hello"))
//	reply, err := b.Control().Request(ctx, bus.Msg{Subject: "time"})
//
// A [Bus] is two connections. [Bus.Data] carries messages and casts and hears
// nothing of what it publishes itself; [Bus.Control] carries heartbeats, acks
// and stops, which must not wait behind data: one connection would delay them
// by as much as the data's backlog takes. Each is a [Conn] with one Inbox, a
// queue that all its subscriptions feed, and one pump goroutine that hands the
// queue's messages to their handlers. A lossy Inbox ([Conn.Lossy]) is a second queue
// with a pump of its own, for what plain clients may send to anybody.
//
// # Invariants
//
//   - BUS-1: what one Conn publishes arrives at one Inbox in publish order,
//     across all subjects of that Inbox, for one connection's life. A reconnect
//     ends it: State says so, and order across it is the caller's to restore.
//   - BUS-2: nothing is dropped silently. A full Inbox is a lost connection: the
//     connection is made again once half of the queue is handled, and State says so.
//     A lossy Inbox drops the new message and counts it. A refused subscription or
//     a connection that the server ended for good breaks the Bus. A refused publish, which the server reports after Publish has returned, is a State
//     of kind Denied that names the subject, one for each message, in publish
//     order. A message while there is no server is an error at once.
//   - BUS-3: when Subscribe returns, our server has the interest; a peer told
//     by message may send at once. The same holds for all subscriptions at a State
//     of kind Reconnected. With one server, or a hub and leaves, that
//     is transitive. In a full-mesh cluster it is not, and only an end-to-end
//     reply proves the road.
//   - BUS-4: a server off this machine that asks for no authentication is
//     refused, on the first connect and on every reconnect, unless Insecure.
//   - BUS-5: when Close returns no handler runs and none will.
//   - BUS-6: a panic in a handler is logged with its stack and breaks the Bus;
//     a peer's bytes never end the process.
//   - BUS-7: of several writers of a key in a KV bucket one succeeds: each names
//     the revision it replaces. Where there is no JetStream, opening one is
//     ErrNoJetStream; where its cluster has no leader or no quorum, ErrJetStreamAway.
//   - BUS-8: a request passes over replies that its caller does not accept, such as the
//     acknowledgement of a stream, and counts them (PassedOver). A pause begins with an
//     answer only.
//
// What BUS-2 cannot cover is NATS itself: a message whose subscriber is gone, or
// in flight when a connection is lost, vanishes. That gap is internal/link's.
//
// # Concurrency
//
// All methods of Bus, Conn, Inbox and Sub are safe for concurrent use. Handlers of one
// Inbox never run concurrently; those of two may. A handler must not
// wait: it may publish and unsubscribe, but what subscribes, drains, flushes or requests
// belongs in another goroutine, and Close called from a handler would wait for
// itself. Publish may wait for the socket, at most 5 s; then the connection is
// given up and made anew.
//
// Every wait has a deadline: 5 s for Flush, Subscribe, Drain and Close, 30 s for
// requests, unless the context has its own. In a testing/synctest bubble the
// whole package works with an in-process server.
//
// # Failure
//
// There are three grades. An error of one call concerns that call. A lost
// connection is restored for ever, subscriptions included; meanwhile publishes
// fail with [ErrDisconnected] and [Options].OnState tells. A broken Bus is over:
// Done is closed, Err has the reason, every call answers [ErrClosed], both
// connections are closed, and Close is still to be called.
//
// # Local servers
//
// A server for the programs of one user on one machine leaves its URL and token
// in a file (see [LocalFile]) that [FromEnv] reads last. A file that others
// could have written is refused, and so said when the connection then fails.
package bus
