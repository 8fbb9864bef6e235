package link

import "time"

// Config holds the bounds and times of a Core. The zero value of a field is its default.
type Config struct {
	// FirstSeq is for a process in the place of a dead one of the same name. All its packet numbers
	// are above FirstSeq, and all of the dead one's below. So receivers do not take its packets for
	// duplicates. At most 1<<43.
	FirstSeq uint64

	PacketSize     int // bound of a packet of several messages; 30 KiB, below the size of large objects
	ChunkSize      int // size of the parts of larger messages; 256 KiB
	ChunksInFlight int // unacknowledged parts of one message; 8
	MaxMessage     int // bytes of one message; 64 MiB
	AssemblyBytes  int // bytes of unfinished messages of all peers together, and as many of packets; 256 MiB

	Outbox    int // bytes queued for one peer; 8 MiB, besides one larger message
	OutboxAll int // bytes queued for all peers together; 256 MiB

	InitialWindow int // bytes in flight before the peer's first grant; 32 KiB
	Window        int // bytes in flight from one peer; 8 MiB
	WindowAll     int // and all of them together; 32 MiB

	AckEvery         int           // packets acknowledged at once; 64
	AckDelay         time.Duration // delay of the acknowledgement of fewer packets; 20 ms
	ReplyAckDelay    time.Duration // how long an answer may stand for a cast's acknowledgement; 250 ms
	MinRTO           time.Duration // 25 ms
	FirstRTO         time.Duration // before the first measurement; 200 ms
	MaxProbeInterval time.Duration // between two probes; 1 s
	NoResponderGrace time.Duration // delay before "no responders" is believed; 500 ms
	ReconnectGrace   time.Duration // the same for a known peer; 5 s, longer than a reconnect
	// silence of a peer that owes an answer before servers are asked about it; 2 s
	Suspect time.Duration
	// silence of a peer that owes an acknowledgement before its link is reset; 60 s
	SilenceTimeout     time.Duration
	DefaultDeadline    time.Duration // for the fate of a message without its own; 30 s
	MaxOutOfOrder      int           // packets behind a gap; 256
	MaxOutOfOrderBytes int           // and their bytes; 4 MiB
	MaxOutOfOrderTotal int           // and those of all peers together; 64 MiB
	MaxRefusals        int           // unconfirmed refusals; 1,024
	MaxPeers           int           // 1,048,576
}

// Costs of a packet in its window and of a message in a queue, besides the body. They cover the
// server's queues.
const (
	packetCost  = 192 // subject, reply subject, head, and the server's 32; fixed by the wire
	messageCost = 256
)

// withDefaults fills in the defaults.
func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	after := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.PacketSize, 30<<10)
	def(&c.ChunkSize, 256<<10)
	def(&c.ChunksInFlight, 8)
	def(&c.MaxMessage, 64<<20)
	def(&c.AssemblyBytes, 256<<20)
	def(&c.Outbox, 8<<20)
	def(&c.OutboxAll, 256<<20)
	def(&c.InitialWindow, 32<<10)
	def(&c.Window, 8<<20)
	def(&c.WindowAll, 32<<20)
	def(&c.AckEvery, 64)
	after(&c.AckDelay, 20*time.Millisecond)
	after(&c.ReplyAckDelay, 250*time.Millisecond)
	after(&c.MinRTO, 25*time.Millisecond)
	after(&c.FirstRTO, 200*time.Millisecond)
	after(&c.MaxProbeInterval, time.Second)
	after(&c.NoResponderGrace, 500*time.Millisecond)
	after(&c.ReconnectGrace, 5*time.Second)
	after(&c.Suspect, 2*time.Second)
	after(&c.SilenceTimeout, time.Minute)
	after(&c.DefaultDeadline, 30*time.Second)
	def(&c.MaxOutOfOrder, 256)
	def(&c.MaxOutOfOrderBytes, 4<<20)
	def(&c.MaxOutOfOrderTotal, 64<<20)
	def(&c.MaxRefusals, 1024)
	def(&c.MaxPeers, 1<<20)
	return c
}
