package link

import (
	"fmt"

	"github.com/castnet-io/castnet/internal/wire"
)

// assembly is a message or packet that arrives in parts, in order.
type assembly struct {
	seq     uint64 // of pieces: the packet
	total   int
	buf     []byte
	failure string // why it will not be whole
}

// Fragment takes a part of a packet too large for the bus, and returns the packet when it is whole.
// If a part is not the next one, the assembly restarts: the packet is missing, and will be sent
// again.
func (rcv *receiver) Fragment(p *Peer, n uint64, cut wire.FragmentHead, part []byte) []byte {
	a := &p.in.fragments
	if rcv.ignores(p) || n <= p.in.lastSeq {
		return nil
	}
	if cut.Offset == 0 {
		rcv.dropFragments(&p.in)
		*a = assembly{seq: n, total: cut.Total}
	}
	if a.seq != n || a.total != cut.Total || len(a.buf) != cut.Offset ||
		!rcv.assemblyFits(rcv.fragmentBytes, part, cut.Total) {
		return nil
	}
	rcv.fragmentBytes += len(part)
	rcv.scheduleTick(p, rcv.silenceDeadline(p))
	a.append(part)
	if len(a.buf) < a.total {
		return nil
	}
	whole := a.buf
	rcv.dropFragments(&p.in)
	return whole
}

// assemblyFits reports whether a part fits into the memory left.
func (rcv *receiver) assemblyFits(held int, part []byte, total int) bool {
	return total <= rcv.cfg.MaxMessage+headMargin && held+len(part) <= rcv.cfg.AssemblyBytes
}

// Chunk takes a part of a message, and returns the message, as an encoded envelope, when it is
// whole. An error means that it never will be. It is returned with the last part, because that part
// carries the message's fate.
func (rcv *receiver) Chunk(p *Peer, e *wire.Envelope) (whole []byte, err error) {
	of, err := wire.DecodeChunk(e.Ext, len(e.Body))
	if err != nil {
		return nil, err
	}
	in := &p.in
	a := in.chunks[of.ID]
	last := of.Offset+len(e.Body) == of.Total
	switch {
	case of.Total == 0:
		rcv.dropChunks(in, of.ID, a)
		return nil, nil
	case a == nil && (len(in.chunks) >= maxChunks || rcv.assemblyBytes+assemblyCost > rcv.cfg.AssemblyBytes):
		if !last {
			return nil, nil
		}
		return nil, fmt.Errorf(
			"too many unfinished messages: %d of this process, %d bytes in all; want at most %d and %d",
			len(in.chunks), rcv.assemblyBytes, maxChunks, rcv.cfg.AssemblyBytes)
	case a == nil:
		if in.chunks == nil {
			in.chunks = map[uint64]*assembly{}
		}
		a = &assembly{total: of.Total}
		rcv.assemblyBytes += assemblyCost
		in.chunks[of.ID] = a
		rcv.scheduleTick(p, rcv.silenceDeadline(p))
	}
	switch {
	case a.failure != "":
	case a.total != of.Total || len(a.buf) != of.Offset:
		a.fail(rcv, fmt.Sprintf("a part of %d bytes at %d of %d does not follow %d of %d", len(e.Body),
			of.Offset, of.Total, len(a.buf), a.total))
	case !rcv.assemblyFits(rcv.assemblyBytes, e.Body, of.Total):
		a.fail(rcv, fmt.Sprintf(
			"no memory for a message of %d bytes: unfinished ones have %d, want at most %d",
			of.Total, rcv.assemblyBytes, rcv.cfg.AssemblyBytes))
	default:
		rcv.assemblyBytes += len(e.Body)
		a.append(e.Body)
	}
	if !last {
		return nil, nil
	}
	whole, dead := a.buf, a.failure
	rcv.dropChunks(in, of.ID, a)
	if dead != "" {
		return nil, fmt.Errorf("%s", dead)
	}
	return whole, nil
}

// maxChunks bounds how many messages of one peer may be unfinished.
const maxChunks = 1024

// assemblyCost is the cost of an unfinished message besides its bytes: many may have one byte.
const assemblyCost = 256

// append adds a part. The first one claims its own size only: a stranger may send no other. Then
// the buffer doubles up to the claimed total, because one that grows by a quarter copies a large
// message several times. It takes the whole total if that is little more: the head of a message
// would cost another copy.
func (a *assembly) append(part []byte) {
	need := len(a.buf) + len(part)
	if need > cap(a.buf) {
		size := need
		if len(a.buf) > 0 {
			size = 2 * need
			if a.total <= size+size/8 {
				size = max(a.total, need)
			}
		}
		grown := make([]byte, len(a.buf), size)
		copy(grown, a.buf)
		a.buf = grown
	}
	a.buf = append(a.buf, part...)
}

func (a *assembly) fail(rcv *receiver, why string) {
	rcv.assemblyBytes -= len(a.buf)
	a.buf, a.failure = nil, why
}

func (rcv *receiver) dropChunks(in *incoming, id uint64, a *assembly) {
	if a != nil {
		rcv.assemblyBytes -= len(a.buf) + assemblyCost
		delete(in.chunks, id)
	}
}

// dropAssemblies drops the unfinished messages of a peer.
func (rcv *receiver) dropAssemblies(p *Peer) {
	for id, a := range p.in.chunks {
		rcv.dropChunks(&p.in, id, a)
	}
	rcv.dropFragments(&p.in)
}

func (rcv *receiver) dropFragments(in *incoming) {
	rcv.fragmentBytes -= len(in.fragments.buf)
	in.fragments = assembly{}
}
