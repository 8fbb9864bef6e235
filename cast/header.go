package cast

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
)

// mode says what becomes of the answers.
type mode uint8

const (
	modePost    mode = 0 // there are none
	modeEach    mode = 1 // each rank answers home
	modeFold    mode = 2 // they fold on the way
	modeCollect mode = 3 // each host sends all of its ranks' home
)

// folds reports whether few answers come home, of many.
func (m mode) folds() bool { return m >= modeFold }

// header is the ext of a Cast frame. Keys are append-only (WIRE-4). Ranks are view ranks.
type header struct {
	Region  shape.Region `cbor:"1,keyasint"`
	Prevs   []run        `cbor:"2,keyasint"`           // each member's prev on its link
	Skip    ranks        `cbor:"3,keyasint,omitempty"` // known to be gone: not meant
	Mode    mode         `cbor:"4,keyasint"`
	Home    string       `cbor:"5,keyasint,omitempty"` // the port the answers go to
	Reducer string       `cbor:"6,keyasint,omitempty"`
	Arity   int          `cbor:"7,keyasint,omitempty"` // of the tree that the answers fold in; 0: 16
	// Within is the region that the user meant, when this cast reaches a part of it; nil: Region.
	Within *shape.Region `cbor:"8,keyasint,omitempty"`
	Apex   bool          `cbor:"9,keyasint,omitempty"` // one host folds for all: see tree
	// Tell is how often, in milliseconds, who folds for several sends home how far it is; 0: never.
	Tell int `cbor:"10,keyasint,omitempty"`
	// Gens are the generations of the procs that are asked; 0 behind the last of them.
	Gens []run `cbor:"11,keyasint,omitempty"`
	// Numbers are the Prevs when these are many, which are none then.
	Numbers packedRuns `cbor:"12,keyasint,omitempty"`
	// Partly says that who tells how far it is also sends what it has folded by then.
	Partly bool `cbor:"13,keyasint,omitempty"`
}

// rest is the ext of an answer: whose it is. A Value with Folded has in its body a list of values, one
// for each of the sets of ranks in Parts.
type rest struct {
	Home   string    `cbor:"1,keyasint,omitempty"` // to a folder: which cast
	Rank   int       `cbor:"2,keyasint"`           // of one rank
	Folded bool      `cbor:"3,keyasint,omitempty"` // of many: the two below say for whom
	Parts  []ranks   `cbor:"4,keyasint,omitempty"`
	Failed []failure `cbor:"5,keyasint,omitempty"`
	// Declined says to who sent an answer that it goes past this process, which was not told of the cast.
	Declined bool `cbor:"6,keyasint,omitempty"`
	// Around, less one, is a rank whose process has said nothing: who has sent an answer there, or would,
	// sends it past that process.
	Around int `cbor:"7,keyasint,omitempty"`
	// Settled says that these have answered or failed: how far a fold is. There is nothing else then but, if the
	// header says so, Parts with what is folded so far.
	Settled ranks `cbor:"8,keyasint,omitempty"`
}

// bodies are the values of a contribution, each as it would travel by itself.
type bodies [][]byte

// failure is why ranks have no value.
type failure struct {
	Ranks ranks  `cbor:"1,keyasint"`
	Error []byte `cbor:"2,keyasint"` // a wire.Error
}

// genAt is the generation of the proc that is asked for a rank.
func genAt(gens []run, view int) uint32 {
	gen, _ := at(gens, view)
	return uint32(gen)
}

// open decodes the header of a cast.
func (h *header) open(ext []byte) error {
	if err := wire.Unmarshal(ext, h); err != nil {
		return err
	}
	n := h.Region.NumRanks()
	switch {
	case h.Mode > modeCollect:
		return fmt.Errorf("cast header: unknown mode %d", h.Mode)
	case !h.Skip.valid(n):
		return fmt.Errorf("cast header: who is skipped are no ranks of %d", n)
	case h.Tell < 0:
		return fmt.Errorf("cast header: tell how far it is every %d ms", h.Tell)
	case h.Arity < 0 || h.Arity == 1:
		return fmt.Errorf("cast header: a tree of arity %d: want at least 2", h.Arity)
	}
	return nil
}

// point is a rank's point in the region that the user meant (CAST-3).
func (h *header) point(view int) shape.Point {
	in := h.Region
	if h.Within != nil {
		in = *h.Within
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
	return tree{place: place, region: h.Region, gens: h.Gens, skip: h.Skip, arity: arity, apex: h.Apex}
}

// prev is what the member of a rank must have seen before: see link.Cast.
func (h *header) prev(view int) (uint64, error) {
	prev, ok := at(h.Prevs, view)
	if len(h.Numbers) > 0 {
		prev, ok = h.Numbers.at(view)
	}
	if !ok {
		return 0, fmt.Errorf("cast header: no prev for rank %d of %d", view, h.Region.NumRanks())
	}
	return prev, nil
}

// part is what some ranks answered, folded into one value.
type part struct {
	ranks ranks
	value actor.Answer // it holds no error
}

func (p part) end() int { return p.ranks[len(p.ranks)-1].end() }

// contribution is what travels home: the answers of ranks that follow each other, and who has none.
type contribution struct {
	parts  []part
	failed []failure
}

// speaksFor reports whether it has the answer of one of the ranks from lo up to below.
func (c contribution) speaksFor(lo, below int) bool {
	return slices.ContainsFunc(c.parts, func(p part) bool {
		return slices.ContainsFunc(p.ranks, func(s span) bool { return s.First < below && s.end() > lo })
	})
}

// encode makes the answer and its ext. cast is the home when it goes to a folder.
func (c contribution) encode(cast string) (values bodies, ext []byte, err error) {
	return c.with(rest{Home: cast, Folded: true, Failed: c.failed})
}

// word is what is folded so far, when so many are settled.
func (c contribution) word(settled ranks) (values bodies, ext []byte, err error) {
	return c.with(rest{Folded: true, Settled: settled})
}

func (c contribution) with(r rest) (values bodies, ext []byte, err error) {
	for _, p := range c.parts {
		raw, err := p.value.Raw()
		if err != nil {
			return nil, nil, err
		}
		values, r.Parts = append(values, raw), append(r.Parts, p.ranks)
	}
	ext, err = wire.Marshal(r)
	return values, ext, err
}

// decode reads a contribution to a cast among n ranks.
func (r rest) decode(in actor.Incoming, n int) (c contribution, err error) {
	total := 0
	for _, f := range r.Failed {
		if len(f.Ranks) == 0 || !f.Ranks.valid(n) {
			return c, fmt.Errorf("an answer of no ranks of %d", n)
		}
		if total += f.Ranks.count(); total > n {
			return c, fmt.Errorf("an answer in which ranks fail twice")
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
			return c, fmt.Errorf("an answer of no ranks of %d", n)
		}
		c.failed = append(c.failed, failure{all, in.Envelope.Body})
		return c, nil
	}
	values, err := actor.Open[bodies](in.Answer())
	if err != nil {
		return c, err
	}
	if len(values) != len(r.Parts) {
		return c, fmt.Errorf("%d values for %d parts", len(values), len(r.Parts))
	}
	for i, rs := range r.Parts {
		if len(rs) == 0 || !rs.valid(n) {
			return c, fmt.Errorf("an answer of no ranks of %d", n)
		}
		c.parts = append(c.parts, part{rs, actor.Encoded(values[i])})
	}
	return c, nil
}
