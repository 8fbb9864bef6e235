// Package chaos is a TCP proxy between one process and its server. On demand it disturbs the
// connections of that process.
//
//	p, err := chaos.Start("127.0.0.1:4222")
//	defer p.Close()
//	… connect to p.Addr() …
//	p.Slow(chaos.Both, chaos.Weather{Latency: 50 * time.Millisecond})
//	at := <-p.Cut(chaos.Cut{Direction: chaos.Up, After: 12345, Reset: true})
//
// A pair is one connection of the client and the matching one to the server. Slow delays and
// throttles. Stall keeps all sockets open and passes nothing. Cut cuts after any byte, also within
// a frame. Hold keeps the bytes of a client until long after the client has left. Record keeps what
// a listener on the network reads.
//
// Toxiproxy has only the first two. It cuts after a number of bytes (limit_data) or by RST after a
// time (reset_peer), never by RST after a byte. It holds back no bytes of a client that has left.
// Most tests need these, and one proxy is simpler than two in a row.
//
// A proxy cannot lose packets: the kernel has acknowledged the bytes that it reads. To drop some of
// them would be corruption, which no network does.
//
// # Contract
//
//   - CHAOS-1 (no loss): An undisturbed proxy passes every byte once, in order, both ways. Stall
//     and Hold lose nothing: at their end the kept bytes go on in order, whatever has become of
//     the client.
//   - CHAOS-2 (exact cuts): A cut passes exactly the bytes before it and nothing after it, on the
//     pair of the last byte. With Reset, bytes on their way may be lost as well, and both ends see
//     ECONNRESET.
//   - CHAOS-6 (recording): After Record, Recorded has every byte that was read since, in order for each
//     direction of a pair, up to 64 MiB in all.
//   - CHAOS-5 (close): When Close returns, all connections have ended with RST and no goroutine is
//     left.
//
// # Details
//
// The bytes of a Held reach the server on their own connection.
//
// A Proxy keeps up to 2,048 reads of at most 32 KiB for each direction of a pair. Then its sender
// has to wait, as on a slow network. All methods may be called on any goroutine.
//
// # Failure
//
// Only Start can fail, if it cannot listen on the address. If the server cannot be reached, the
// client's connection is cut at once.
package chaos
