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
func (c *Core) Fragment(p *Peer, n uint64, cut wire.FragmentHead, part []byte) []byte {
	a := &p.in.fragments
	if c.ignores(p) || n <= p.in.lastSeq {
		return nil
	}
	if cut.Offset == 0 {
		c.dropFragments(&p.in)
		*a = assembly{seq: n, total: cut.Total}
	}
	if a.seq != n || a.total != cut.Total || len(a.buf) != cut.Offset ||
		!c.assemblyFits(c.fragmentBytes, part, cut.Total) {
		return nil
	}
	c.fragmentBytes += len(part)
	c.scheduleTick(p, c.silenceDeadline(p))
	a.buf = append(a.buf, part...)
	if len(a.buf) < a.total {
		return nil
	}
	whole := a.buf
	c.dropFragments(&p.in)
	return whole
}

// assemblyFits reports whether a part fits into the memory left.
func (c *Core) assemblyFits(held int, part []byte, total int) bool {
	return total <= c.cfg.MaxMessage+headMargin && held+len(part) <= c.cfg.AssemblyBytes
}

// Chunk takes a part of a message, and returns the message, as an encoded envelope, when it is
// whole. An error means that it never will be. It is returned with the last part, because that part
// carries the message's fate.
func (c *Core) Chunk(p *Peer, e *wire.Envelope) (whole []byte, err error) {
	of, err := wire.DecodeChunk(e.Ext, len(e.Body))
	if err != nil {
		return nil, err
	}
	in := &p.in
	a := in.chunks[of.ID]
	last := of.Offset+len(e.Body) == of.Total
	switch {
	case of.Total == 0:
		c.dropChunks(in, of.ID, a)
		return nil, nil
	case a == nil && (len(in.chunks) >= maxChunks || c.assemblyBytes+assemblyCost > c.cfg.AssemblyBytes):
		if !last {
			return nil, nil
		}
		return nil, fmt.Errorf(
			"too many unfinished messages: %d of this process, %d bytes in all; want at most %d and %d",
			len(in.chunks), c.assemblyBytes, maxChunks, c.cfg.AssemblyBytes)
	case a == nil:
		if in.chunks == nil {
			in.chunks = map[uint64]*assembly{}
		}
		a = &assembly{total: of.Total}
		c.assemblyBytes += assemblyCost
		in.chunks[of.ID] = a
		c.scheduleTick(p, c.silenceDeadline(p))
	}
	switch {
	case a.failure != "":
	case a.total != of.Total || len(a.buf) != of.Offset:
		a.fail(c, fmt.Sprintf("a part of %d bytes at %d of %d does not follow %d of %d", len(e.Body),
			of.Offset, of.Total, len(a.buf), a.total))
	case !c.assemblyFits(c.assemblyBytes, e.Body, of.Total):
		a.fail(c, fmt.Sprintf("no memory for a message of %d bytes: unfinished ones have %d, want at most %d",
			of.Total, c.assemblyBytes, c.cfg.AssemblyBytes))
	default:
		c.assemblyBytes += len(e.Body)
		a.buf = append(a.buf, e.Body...)
	}
	if !last {
		return nil, nil
	}
	whole, dead := a.buf, a.failure
	c.dropChunks(in, of.ID, a)
	if dead != "" {
		return nil, fmt.Errorf("%s", dead)
	}
	return whole, nil
}

// maxChunks bounds how many messages of one peer may be unfinished.
const maxChunks = 1024

// assemblyCost is the cost of an unfinished message besides its bytes: many may have one byte.
const assemblyCost = 256

func (a *assembly) fail(c *Core, why string) {
	c.assemblyBytes -= len(a.buf)
	a.buf, a.failure = nil, why
}

func (c *Core) dropChunks(in *incoming, id uint64, a *assembly) {
	if a != nil {
		c.assemblyBytes -= len(a.buf) + assemblyCost
		delete(in.chunks, id)
	}
}

// dropAssemblies drops the unfinished messages of a peer.
func (c *Core) dropAssemblies(p *Peer) {
	for id, a := range p.in.chunks {
		c.dropChunks(&p.in, id, a)
	}
	c.dropFragments(&p.in)
}

func (c *Core) dropFragments(in *incoming) {
	c.fragmentBytes -= len(in.fragments.buf)
	in.fragments = assembly{}
}
