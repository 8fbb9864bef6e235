package cast

import (
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
)

// mode is the treatment of the answers.
type mode uint8

const (
	modeSend    mode = 0 // no answers
	modeEach    mode = 1 // each rank answers home
	modeFold    mode = 2 // they fold on the way
	modeCollect mode = 3 // each host sends all of its ranks' home
)

// aggregates reports whether few answers come home, of many.
func (m mode) aggregates() bool { return m >= modeFold }

// header is the ext of a Cast frame. Keys are append-only (WIRE-4). Ranks are view ranks.
type header struct {
	Region    shape.Region `cbor:"1,keyasint"`
	Prevs     runs         `cbor:"2,keyasint,omitempty"` // each member's prev on its link; none: it is for one
	Skip      shape.Ranks  `cbor:"3,keyasint,omitempty"` // known to be gone: not meant
	Mode      mode         `cbor:"4,keyasint"`
	ReplyPort string       `cbor:"5,keyasint,omitempty"` // the port the answers go to
	Reducer   string       `cbor:"6,keyasint,omitempty"`
	Arity     int          `cbor:"7,keyasint,omitempty"` // of the tree that the answers fold in; 0: 16
	// Asked are the ranks of the region that the cast is for: a selection, or a batch; none: all.
	Asked      shape.Ranks `cbor:"8,keyasint,omitempty"`
	SingleRoot bool        `cbor:"9,keyasint,omitempty"` // one host folds for all: see tree
	// ProgressMillis is the period, in milliseconds, of progress reports by a process that folds
	// for several ranks; 0: never.
	ProgressMillis int `cbor:"10,keyasint,omitempty"`
	// Gens are the generations of the addressed procs; 0 behind the last of them.
	Gens runs `cbor:"11,keyasint,omitempty"`
	// PartialValues makes progress reports include the partial fold.
	PartialValues bool   `cbor:"12,keyasint,omitempty"`
	Trace         []byte `cbor:"13,keyasint,omitempty"` // a wire.Trace, which each handler sees

	skip shape.Ranks // the ranks not in Asked, and those of Skip
}

// setSkip sets the ranks that are known to be gone.
func (h *header) setSkip(gone shape.Ranks) {
	h.Skip = gone
	h.skip = gone
	if !h.Asked.IsEmpty() {
		h.skip = shape.UnionOf(gone, h.Asked.Complement(h.Region.NumRanks()))
	}
}

// replyHeader is the ext of an answer and identifies its ranks. The body of a Value with Folded is
// a list of values, one for each of the sets of ranks in Parts.
type replyHeader struct {
	Cast   string        `cbor:"1,keyasint,omitempty"` // to a folder: which cast
	Rank   int           `cbor:"2,keyasint"`           // of one rank
	Folded bool          `cbor:"3,keyasint,omitempty"` // of many: the two below say for whom
	Parts  []shape.Ranks `cbor:"4,keyasint,omitempty"`
	Failed []failure     `cbor:"5,keyasint,omitempty"`
	// Declined tells the sender of an answer to go past this process, which did not get the cast.
	Declined bool `cbor:"6,keyasint,omitempty"`
	// RerouteRank, less one, is a rank whose process is silent. Processes that answer through it go
	// past it.
	RerouteRank int `cbor:"7,keyasint,omitempty"`
	// Settled are the ranks that have answered or failed: the progress of a fold. Otherwise the
	// reply has only Parts, with the partial fold, if the header asks for it.
	Settled shape.Ranks `cbor:"8,keyasint,omitempty"`
}

// bodies are the values of a contribution, each as it would travel by itself.
type bodies [][]byte

// failure is the reason why ranks have no value.
type failure struct {
	Ranks shape.Ranks `cbor:"1,keyasint"`
	Error []byte      `cbor:"2,keyasint"` // a wire.Error
}

// genAt is the generation of the addressed proc of a rank.
func genAt(gens runs, view int) uint32 {
	gen, _ := gens.at(view)
	return uint32(gen)
}

// decode decodes the header of a cast.
func (h *header) decode(ext []byte) error {
	if err := wire.Unmarshal(ext, h); err != nil {
		return err
	}
	n := h.Region.NumRanks()
	switch {
	case h.Mode > modeCollect:
		return fmt.Errorf("cast header: unknown mode %d", h.Mode)
	case max(h.Skip.End(), h.Asked.End()) > n:
		return fmt.Errorf("cast header: ranks beyond the %d ranks of the region", n)
	case h.ProgressMillis < 0:
		return fmt.Errorf("cast header: invalid progress interval of %d ms", h.ProgressMillis)
	case h.Arity < 0 || h.Arity == 1:
		return fmt.Errorf("cast header: a tree of arity %d: want at least 2", h.Arity)
	}
	if h.Trace != nil {
		if _, err := wire.DecodeTrace(h.Trace); err != nil {
			return fmt.Errorf("cast header: %w", err)
		}
	}
	h.setSkip(h.Skip)
	return nil
}

// point is a rank's point in the region (CAST-1).
func (h *header) point(view int) shape.Point {
	p, err := h.Region.Extent().Point(view)
	if err != nil {
		return shape.Point{}
	}
	return p
}

// tree is the way home.
func (h *header) tree(place Placement) tree {
	arity := h.Arity
	if arity == 0 {
		arity = defaultArity
	}
	arity = min(arity, max(h.Region.NumRanks(), 2)) // more is the same
	return tree{placement: place, region: h.Region, gens: h.Gens, skip: h.skip, arity: arity,
		singleRoot: h.SingleRoot}
}

// prev is the number that the member of a rank must have seen before: see link.Cast.
func (h *header) prev(view int) (uint64, error) {
	prev, ok := h.Prevs.at(view)
	if !ok {
		return 0, fmt.Errorf("cast header: no prev for rank %d of %d", view, h.Region.NumRanks())
	}
	return prev, nil
}

// part is the answers of some ranks, folded into one value.
type part struct {
	ranks shape.Ranks
	value actor.Answer // it holds no error
}

// contribution is a message on the way home: the answers of adjacent ranks, and the ranks without
// one.
type contribution struct {
	parts  []part
	failed []failure
}

// coversAny reports whether it has the answer of one of the ranks from lo up to below.
func (c contribution) coversAny(lo, below int) bool {
	return slices.ContainsFunc(c.parts, func(p part) bool { return p.ranks.Intersects(lo, below) })
}

// encode makes the answer and its ext. cast is the home when it goes to a folder.
func (c contribution) encode(cast string) (values bodies, ext []byte, err error) {
	return c.encodeParts(replyHeader{Cast: cast, Folded: true, Failed: c.failed})
}

// encodeProgress encodes the partial fold and the settled ranks.
func (c contribution) encodeProgress(settled shape.Ranks) (values bodies, ext []byte, err error) {
	return c.encodeParts(replyHeader{Folded: true, Settled: settled})
}

func (c contribution) encodeParts(r replyHeader) (values bodies, ext []byte, err error) {
	for _, p := range c.parts {
		raw, err := p.value.Raw()
		if err != nil {
			return nil, nil, err
		}
		values = append(values, raw)
		r.Parts = append(r.Parts, p.ranks)
	}
	ext, err = wire.Marshal(r)
	return values, ext, err
}

// decode reads a contribution to a cast among n ranks.
func (r replyHeader) decode(in actor.Incoming, n int) (c contribution, err error) {
	total := 0
	for _, f := range r.Failed {
		if f.Ranks.IsEmpty() || f.Ranks.End() > n {
			return c, fmt.Errorf("an answer of ranks beyond the %d of the cast", n)
		}
		total += f.Ranks.Len()
		if total > n {
			return c, fmt.Errorf("an answer that fails ranks twice")
		}
	}
	c.failed = r.Failed
	c.parts = make([]part, 0, len(r.Parts))
	for _, rs := range r.Parts {
		if rs.IsEmpty() || rs.End() > n {
			return c, fmt.Errorf("an answer of ranks beyond the %d of the cast", n)
		}
		c.parts = append(c.parts, part{ranks: rs})
	}
	if len(r.Parts) == 0 {
		return c, nil
	}
	if in.Envelope.Kind == wire.Failure { // it could not be sent as it was: one error for all
		all := shape.UnionOf(r.Parts...)
		if all.Len() != countRanks(c.parts) {
			return c, fmt.Errorf("an answer that fails ranks twice")
		}
		c.parts = nil
		c.failed = append(c.failed, failure{all, in.Envelope.Body})
		return c, nil
	}
	values, err := actor.DecodeAnswer[bodies](in.Answer())
	if err != nil {
		return c, err
	}
	if len(values) != len(r.Parts) {
		return c, fmt.Errorf("%d values for %d parts", len(values), len(r.Parts))
	}
	for i := range c.parts {
		c.parts[i].value = actor.EncodedAnswer(values[i])
	}
	return c, nil
}
