package link

import "time"

// Config holds the bounds and times of a Core. The zero value of a field is its default.
type Config struct {
	// First is for a process that takes the place of a dead one under its name: its packets have numbers
	// above this, and those of the dead one had none, so that nobody takes them for packets that have come. At most 1<<43.
	First uint64

	PacketSize int // bytes of messages that leave together at most; 30 KiB, so that a packet is no large object
	ChunkSize  int // what is larger leaves in parts of this size at most; 256 KiB
	ChunksOut  int // parts of one message that may be unacknowledged; 8
	MaxMessage int // bytes of one message; 64 MiB
	Assembly   int // bytes of unfinished messages of all peers together, and as many of packets; 256 MiB

	Outbox    int // bytes that wait for one peer; 8 MiB, besides one message that is larger
	OutboxAll int // bytes that wait for all peers together; 256 MiB

	Opening    int // bytes that may be on the way before the peer has said more; 32 KiB
	Window     int // bytes that one peer may have on the way to us at most; 8 MiB
	WindowAll  int // and all of them together; 32 MiB
	WaitWindow int // of messages that wait for room, bytes that are not taken up; 8 MiB, the same everywhere

	AckEvery   int           // packets that are acknowledged at once; 64
	AckDelay   time.Duration // when there are fewer; 20 ms
	AnswerWait time.Duration // how long a cast waits for its answer to stand for an acknowledgement; 250 ms
	MinRTO     time.Duration // 25 ms
	FirstRTO   time.Duration // before anything was measured; 200 ms
	MaxBeat    time.Duration // between two beats; 1 s
	Nobody     time.Duration // how long the bus may say that nobody listens before that is believed; 500 ms
	Away       time.Duration // the same of a peer that was heard of; 5 s, so that a reconnect is shorter
	Silence    time.Duration // how long a peer may owe an acknowledgement before its link is given up; 60 s
	Deadline   time.Duration // for the fate of a message that has none of its own; 30 s
	Parked     int           // packets that wait behind a gap; 256
	ParkedSize int           // and their bytes; 4 MiB
	ParkedAll  int           // and those of all peers together; 64 MiB
	Refusals   int           // refusals that the sender has not confirmed; 1,024
	Peers      int           // 1,048,576
}

// The wire's own: what a message counts for on a link besides its body, so that a window holds no more
// than the server's queues do.
const (
	packetCost  = 192 // subject, reply subject, head, and the server's 32
	messageCost = 256 // of a message that waits for room: what it takes in a mailbox, and more, so that those are not too many
)

// withDefaults fills in what was left out.
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
	def(&c.ChunksOut, 8)
	def(&c.MaxMessage, 64<<20)
	def(&c.Assembly, 256<<20)
	def(&c.Outbox, 8<<20)
	def(&c.OutboxAll, 256<<20)
	def(&c.Opening, 32<<10)
	def(&c.Window, 8<<20)
	def(&c.WindowAll, 32<<20)
	def(&c.WaitWindow, 8<<20)
	def(&c.AckEvery, 64)
	after(&c.AckDelay, 20*time.Millisecond)
	after(&c.AnswerWait, 250*time.Millisecond)
	after(&c.MinRTO, 25*time.Millisecond)
	after(&c.FirstRTO, 200*time.Millisecond)
	after(&c.MaxBeat, time.Second)
	after(&c.Nobody, 500*time.Millisecond)
	after(&c.Away, 5*time.Second)
	after(&c.Silence, time.Minute)
	after(&c.Deadline, 30*time.Second)
	def(&c.Parked, 256)
	def(&c.ParkedSize, 4<<20)
	def(&c.ParkedAll, 64<<20)
	def(&c.Refusals, 1024)
	def(&c.Peers, 1<<20)
	return c
}
