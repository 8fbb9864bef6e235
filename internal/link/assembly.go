package link

import (
	"fmt"

	"github.com/castnet-io/castnet/internal/wire"
)

// assembly is a message or packet that arrives in parts, in order.
type assembly struct {
	seq     uint64 // of pieces: the packet
	total   int
	parts   [][]byte
	size    int    // of parts
	failure string // why it will not be whole
}

// Fragment takes a part of a packet too large for the bus, and returns all parts when the last one
// is there. If a part is not the next one, the assembly restarts: the packet is missing, and will
// be sent again.
func (rcv *receiver) Fragment(p *Peer, n uint64, cut wire.FragmentHead, part []byte) [][]byte {
	a := &p.in.fragments
	if rcv.ignores(p) || n <= p.in.lastSeq {
		return nil
	}
	if cut.Offset == 0 {
		rcv.dropFragments(&p.in)
		*a = assembly{seq: n, total: cut.Total}
	}
	if a.seq != n || a.total != cut.Total || a.size != cut.Offset ||
		!rcv.assemblyFits(rcv.fragmentBytes, part, cut.Total) {
		return nil
	}
	rcv.fragmentBytes += a.append(part)
	rcv.scheduleTick(p, rcv.silenceDeadline(p))
	if a.size < a.total {
		return nil
	}
	parts := a.parts
	rcv.dropFragments(&p.in)
	return parts
}

// assemblyFits reports whether a part fits into the memory left.
func (rcv *receiver) assemblyFits(held int, part []byte, total int) bool {
	return total <= rcv.cfg.MaxMessage+headMargin && held+len(part)+partCost <= rcv.cfg.AssemblyBytes
}

// Chunk keeps a part of a message, and returns all parts when the last one is there. Joined, they
// are an encoded envelope. An error means that it never will be whole. It is returned with the last
// part, which carries the message's fate.
func (rcv *receiver) Chunk(p *Peer, e *wire.Envelope) (parts [][]byte, err error) {
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
	case a.total != of.Total || a.size != of.Offset:
		a.fail(rcv, fmt.Sprintf("a part of %d bytes at %d of %d does not follow %d of %d", len(e.Body),
			of.Offset, of.Total, a.size, a.total))
	case !rcv.assemblyFits(rcv.assemblyBytes, e.Body, of.Total):
		a.fail(rcv, fmt.Sprintf(
			"no memory for a message of %d bytes: unfinished ones have %d, want at most %d",
			of.Total, rcv.assemblyBytes, rcv.cfg.AssemblyBytes))
	default:
		rcv.assemblyBytes += a.append(e.Body)
	}
	if !last {
		return nil, nil
	}
	parts, dead := a.parts, a.failure
	rcv.dropChunks(in, of.ID, a)
	if dead != "" {
		return nil, fmt.Errorf("%s", dead)
	}
	return parts, nil
}

// maxChunks bounds how many messages of one peer may be unfinished.
const maxChunks = 1024

// assemblyCost is the cost of an unfinished message besides its bytes: many may have one byte.
const assemblyCost = 256

// partCost is the cost of a part besides its bytes: a stranger may send parts of one byte.
const partCost = 128

// append adds a part, and returns its cost. The memory of a part is the packet's, so a stranger
// claims no more than it has sent.
func (a *assembly) append(part []byte) int {
	a.parts = append(a.parts, part)
	a.size += len(part)
	return len(part) + partCost
}

// cost is the cost of the parts.
func (a *assembly) cost() int { return a.size + len(a.parts)*partCost }

func (a *assembly) fail(rcv *receiver, why string) {
	rcv.assemblyBytes -= a.cost()
	*a = assembly{total: a.total, failure: why}
}

func (rcv *receiver) dropChunks(in *incoming, id uint64, a *assembly) {
	if a != nil {
		rcv.assemblyBytes -= a.cost() + assemblyCost
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
	rcv.fragmentBytes -= in.fragments.cost()
	in.fragments = assembly{}
}
