package cast

import (
	"cmp"
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
	Prevs     []run        `cbor:"2,keyasint"`           // each member's prev on its link
	Skip      ranks        `cbor:"3,keyasint,omitempty"` // known to be gone: not meant
	Mode      mode         `cbor:"4,keyasint"`
	ReplyPort string       `cbor:"5,keyasint,omitempty"` // the port the answers go to
	Reducer   string       `cbor:"6,keyasint,omitempty"`
	Arity     int          `cbor:"7,keyasint,omitempty"` // of the tree that the answers fold in; 0: 16
	// UserRegion is the user's region, when this cast reaches a part of it; nil: Region.
	UserRegion *shape.Region `cbor:"8,keyasint,omitempty"`
	SingleRoot bool          `cbor:"9,keyasint,omitempty"` // one host folds for all: see tree
	// ProgressMillis is the period, in milliseconds, of progress reports by a process that folds
	// for several ranks; 0: never.
	ProgressMillis int `cbor:"10,keyasint,omitempty"`
	// Gens are the generations of the addressed procs; 0 behind the last of them.
	Gens []run `cbor:"11,keyasint,omitempty"`
	// PackedPrevs are the Prevs when there are many; Prevs is then empty.
	PackedPrevs packedRuns `cbor:"12,keyasint,omitempty"`
	// PartialValues makes progress reports include the partial fold.
	PartialValues bool `cbor:"13,keyasint,omitempty"`
}

// replyHeader is the ext of an answer and identifies its ranks. The body of a Value with Folded is
// a list of values, one for each of the sets of ranks in Parts.
type replyHeader struct {
	Cast   string    `cbor:"1,keyasint,omitempty"` // to a folder: which cast
	Rank   int       `cbor:"2,keyasint"`           // of one rank
	Folded bool      `cbor:"3,keyasint,omitempty"` // of many: the two below say for whom
	Parts  []ranks   `cbor:"4,keyasint,omitempty"`
	Failed []failure `cbor:"5,keyasint,omitempty"`
	// Declined tells the sender of an answer to go past this process, which did not get the cast.
	Declined bool `cbor:"6,keyasint,omitempty"`
	// RerouteRank, less one, is a rank whose process is silent. Processes that answer through it go
	// past it.
	RerouteRank int `cbor:"7,keyasint,omitempty"`
	// Settled are the ranks that have answered or failed: the progress of a fold. Otherwise the
	// reply has only Parts, with the partial fold, if the header asks for it.
	Settled ranks `cbor:"8,keyasint,omitempty"`
}

// bodies are the values of a contribution, each as it would travel by itself.
type bodies [][]byte

// failure is why ranks have no value.
type failure struct {
	Ranks ranks  `cbor:"1,keyasint"`
	Error []byte `cbor:"2,keyasint"` // a wire.Error
}

// genAt is the generation of the addressed proc of a rank.
func genAt(gens []run, view int) uint32 {
	gen, _ := at(gens, view)
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
	case !h.Skip.valid(n):
		return fmt.Errorf("cast header: skipped ranks beyond the %d ranks of the region", n)
	case h.ProgressMillis < 0:
		return fmt.Errorf("cast header: invalid progress interval of %d ms", h.ProgressMillis)
	case h.Arity < 0 || h.Arity == 1:
		return fmt.Errorf("cast header: a tree of arity %d: want at least 2", h.Arity)
	}
	return nil
}

// point is a rank's point in the user's region (CAST-3).
func (h *header) point(view int) shape.Point {
	in := h.Region
	if h.UserRegion != nil {
		in = *h.UserRegion
		if base, err := h.Region.BaseRank(view); err == nil {
			view, _ = in.ViewRank(base)
		}
	}
	p, err := in.Extent().Point(view)
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
	return tree{placement: place, region: h.Region, gens: h.Gens, skip: h.Skip, arity: arity, singleRoot: h.SingleRoot}
}

// prev is the number that the member of a rank must have seen before: see link.Cast.
func (h *header) prev(view int) (uint64, error) {
	prev, ok := at(h.Prevs, view)
	if len(h.PackedPrevs) > 0 {
		prev, ok = h.PackedPrevs.at(view)
	}
	if !ok {
		return 0, fmt.Errorf("cast header: no prev for rank %d of %d", view, h.Region.NumRanks())
	}
	return prev, nil
}

// part is the answers of some ranks, folded into one value.
type part struct {
	ranks ranks
	value actor.Answer // it holds no error
}

func (p part) end() int { return p.ranks[len(p.ranks)-1].end() }

// contribution is a message on the way home: the answers of adjacent ranks, and the ranks without
// one.
type contribution struct {
	parts  []part
	failed []failure
}

// coversAny reports whether it has the answer of one of the ranks from lo up to below.
func (c contribution) coversAny(lo, below int) bool {
	return slices.ContainsFunc(c.parts, func(p part) bool {
		return slices.ContainsFunc(p.ranks, func(s span) bool { return s.First < below && s.end() > lo })
	})
}

// encode makes the answer and its ext. cast is the home when it goes to a folder.
func (c contribution) encode(cast string) (values bodies, ext []byte, err error) {
	return c.encodeParts(replyHeader{Cast: cast, Folded: true, Failed: c.failed})
}

// encodeProgress encodes the partial fold and the settled ranks.
func (c contribution) encodeProgress(settled ranks) (values bodies, ext []byte, err error) {
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
		if len(f.Ranks) == 0 || !f.Ranks.valid(n) {
			return c, fmt.Errorf("an answer of ranks beyond the %d of the cast", n)
		}
		total += f.Ranks.count()
		if total > n {
			return c, fmt.Errorf("an answer that fails ranks twice")
		}
	}
	c.failed = r.Failed
	if len(r.Parts) == 0 {
		return c, nil
	}
	if in.Envelope.Kind == wire.Failure { // it could not be sent as it was: one error, which is read once
		all := slices.Concat(r.Parts...)
		slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.First, b.First) }) // parts may lie within each other
		if !all.valid(n) {
			return c, fmt.Errorf("an answer of ranks beyond the %d of the cast", n)
		}
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
	for i, rs := range r.Parts {
		if len(rs) == 0 || !rs.valid(n) {
			return c, fmt.Errorf("an answer of ranks beyond the %d of the cast", n)
		}
		c.parts = append(c.parts, part{rs, actor.EncodedAnswer(values[i])})
	}
	return c, nil
}
