// Package chaos is a TCP proxy that stands between one process and its server and hurts the
// connections that go through it, one process alone and on demand.
//
//	p, err := chaos.Start("127.0.0.1:4222")
//	defer p.Close()
//	… connect to p.Addr() …
//	p.Slow(chaos.Both, chaos.Weather{Latency: 50 * time.Millisecond})
//	at := <-p.Cut(chaos.Cut{Direction: chaos.Up, After: 12345, Reset: true})
//
// A pair is one connection of the client and the one to the server that belongs to it. A proxy can
// delay and throttle (Slow), keep all sockets open and let nothing through (Stall), cut
// after any byte, so in the middle of a frame (Cut), and hold back what the client sent until long
// after the client has left (Hold).
//
// Toxiproxy could do the first half of that. Its cuts come after so many bytes (limit_data) or by
// RST (reset_peer, after a time), never an RST after a byte; and nothing in it holds back what was
// sent on a connection that its client has left. These are most of what is tested, and one proxy is
// simpler than two in a row.
//
// Packet loss cannot be made here: what a proxy reads from a TCP connection the kernel has
// acknowledged, and dropping some of it would be corruption, which no network does.
//
// # Contract
//
//   - CHAOS-1: a proxy that is not told to hurt passes every byte once, in order, both ways.
//   - CHAOS-2: a cut passes exactly the bytes before it and nothing after it, on the pair that
//     carried the last one. With Reset, bytes on their way may be lost as well, and both ends see
//     ECONNRESET.
//   - CHAOS-3: Stall and Hold lose nothing: what they kept goes on in order when they end.
//   - CHAOS-4: what a Held keeps reaches the server on the connection it was sent on, whatever has
//     become of the client.
//   - CHAOS-5: when Close returns, all connections have ended with RST and no goroutine is left.
//
// A Proxy keeps up to 2,048 reads of at most 32 KiB for each direction of a pair; then its sender
// feels it, as it would from a slow network. All methods may be called on any goroutine.
//
// # Failure
//
// Only Start fails: the address cannot be listened on. A server that cannot be reached is a
// connection that is cut at once.
package chaos
