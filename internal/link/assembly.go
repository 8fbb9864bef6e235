package link

import (
	"fmt"

	"github.com/castnet-io/castnet/internal/wire"
)

// assembly is something that comes in parts, in order.
type assembly struct {
	n     uint64 // of pieces: which packet
	total int
	buf   []byte
	dead  string // why it will not be whole
}

// Piece takes a part of a packet that was too large for the bus, and returns the packet when it is
// whole. A part that is not the next one makes it start anew: the packet is missed, and comes again.
func (c *Core) Piece(p *Peer, n uint64, cut wire.Cut, part []byte) []byte {
	a := &p.in.pieces
	if c.deaf(p) || n <= p.in.last {
		return nil
	}
	if cut.Offset == 0 {
		c.dropPieces(&p.in)
		*a = assembly{n: n, total: cut.Total}
	}
	if a.n != n || a.total != cut.Total || len(a.buf) != cut.Offset || !c.room(c.pieced, part, cut.Total) {
		return nil
	}
	c.pieced += len(part)
	c.watch(p, c.silent(p))
	if a.buf = append(a.buf, part...); len(a.buf) < a.total {
		return nil
	}
	whole := a.buf
	c.dropPieces(&p.in)
	return whole
}

// room reports whether a part may be kept where so much is.
func (c *Core) room(held int, part []byte, total int) bool {
	return total <= c.cfg.MaxMessage+margin && held+len(part) <= c.cfg.Assembly
}

// Chunk takes a part of a message and returns the message, as an envelope was written, when it is
// whole. An error says that it will not be; it is returned with the last part, whose sender waits for
// the fate of the message.
func (c *Core) Chunk(p *Peer, e *wire.Envelope) (whole []byte, err error) {
	of, err := wire.DecodeChunk(e.Ext, len(e.Body))
	if err != nil {
		return nil, err
	}
	in := &p.in
	a, last := in.chunks[of.ID], of.Offset+len(e.Body) == of.Total
	switch {
	case of.Total == 0:
		c.dropChunks(in, of.ID, a)
		return nil, nil
	case a == nil && (len(in.chunks) >= maxChunks || c.assembled+assemblyCost > c.cfg.Assembly):
		if !last {
			return nil, nil
		}
		return nil, fmt.Errorf("too many messages come in parts: %d of this process, %d bytes of all, at most %d and %d", len(in.chunks), c.assembled, maxChunks, c.cfg.Assembly)
	case a == nil:
		if in.chunks == nil {
			in.chunks = map[uint64]*assembly{}
		}
		a = &assembly{total: of.Total}
		c.assembled += assemblyCost
		in.chunks[of.ID] = a
		c.watch(p, c.silent(p))
	}
	switch {
	case a.dead != "":
	case a.total != of.Total || len(a.buf) != of.Offset:
		a.die(c, fmt.Sprintf("a part of %d bytes at %d of %d does not continue %d of %d", len(e.Body), of.Offset, of.Total, len(a.buf), a.total))
	case !c.room(c.assembled, e.Body, of.Total):
		a.die(c, fmt.Sprintf("a message of %d bytes: %d of unfinished messages are held already, of at most %d", of.Total, c.assembled, c.cfg.Assembly))
	default:
		c.assembled += len(e.Body)
		a.buf = append(a.buf, e.Body...)
	}
	if !last {
		return nil, nil
	}
	whole, dead := a.buf, a.dead
	c.dropChunks(in, of.ID, a)
	if dead != "" {
		return nil, fmt.Errorf("%s", dead)
	}
	return whole, nil
}

// maxChunks bounds how many messages of one peer may be unfinished.
const maxChunks = 1024

// assemblyCost is what an unfinished message takes besides its bytes: there may be many of one byte.
const assemblyCost = 256

func (a *assembly) die(c *Core, why string) {
	c.assembled -= len(a.buf)
	a.buf, a.dead = nil, why
}

func (c *Core) dropChunks(in *incoming, id uint64, a *assembly) {
	if a != nil {
		c.assembled -= len(a.buf) + assemblyCost
		delete(in.chunks, id)
	}
}

// dropParts forgets what of a peer is unfinished.
func (c *Core) dropParts(p *Peer) {
	for id, a := range p.in.chunks {
		c.dropChunks(&p.in, id, a)
	}
	c.dropPieces(&p.in)
}

func (c *Core) dropPieces(in *incoming) {
	c.pieced -= len(in.pieces.buf)
	in.pieces = assembly{}
}
