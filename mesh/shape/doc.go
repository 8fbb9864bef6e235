// Package shape is the geometry of meshes: extents with labelled dimensions, points, regions that
// are slices of slices, selections of any ranks, and values by rank.
//
// # Use
//
//	e := shape.Of("host", 2).With("gpu", 4)        // 8 ranks
//	r, err := e.Region().Slice("gpu", 0, 2)        // 4 of them
//	r, err = shape.Select(e, "host=1,gpu=0:2")     // as people write it
//	for view, base := range r.Ranks() { … }        // dense rank in r, rank in e
//	s, err := shape.ParseSelection(e, "host=0 | gpu=3")
//	for rank := range s.Ranks() { … }              // any ranks of e
//
// # Selections
//
// A selection says which ranks of an extent are meant:
//
//	selection = [ union ] | "none" .
//	union     = inter { "|" inter } .                  either
//	inter     = chain { "&" chain } .                  both
//	chain     = atom { "," atom } .                    one dimension after another
//	atom      = [ label "=" ] spec | "(" union ")" .
//	spec      = "*" | "?" | index | range .            all, one at random, one, some
//	range     = [ index ] ":" [ index ] [ ":" step ] . from, up to before, every so many
//
// White space may stand between any two of these. An atom is about the dimension that its label
// names, or else the one after that of the atom before it, or else the first: `1,0:2`,
// `host=1,0:2` and `gpu=0:2,host=1` are the same. A chain may speak of a dimension once; those it
// does not speak of are taken whole. What follows a union in a chain follows each part of it:
// `(0|1:3),5` is `0,5 | 1:3,5`. A range begins at 0, ends at the size, and takes every index
// unless it says otherwise; an end beyond the size means the size. `?` is drawn once, when the text
// is read by DrawSelection, and is the same index wherever it applies. The empty text is
// everything, and so is `*`.
//
// The extent without dimensions counts as one dimension of size 1 without a name.
//
// # Contract
//
// All types are immutable values; they may be used on any goroutine.
//
//   - SHP-1: ranks are row-major: the last dimension runs fastest. Rank and Point are inverses.
//   - SHP-2: cutting a region keeps base ranks: a slice of a slice, a flattened one, one of a
//     group, all still say which ranks of the first extent their own dense ranks stand for, in the
//     same order.
//   - SHP-3: BaseRank and ViewRank are inverses on the region; ViewRank refuses every other rank.
//   - SHP-4: Describe names exactly the ranks it was given; Select reads every term of it back.
//   - SHP-5: texts round-trip: what a Parse function of extents, points and regions accepts,
//     String gives back unchanged; what String says of a selection selects the same and prints the
//     same.
//   - SHP-6: a ValueMesh has exactly one value for every rank of its region.
//   - SHP-7: a Selection yields its ranks ascending, each once.
//   - SHP-8: a Selection is in normal form: regions ordered by first rank, none twice, and none
//     within another one as long as there are at most 1024; all ranks are `*`, none are `none`.
//   - SHP-9: merging overlays is commutative, associative and idempotent: of each rank it keeps
//     the value of the highest generation, and of those the one that compares highest.
//   - SHP-10: a ValueMesh reads the same in both its forms, and after a journey.
//   - SHP-11: time and memory go with what is written down or yielded, not with the ranks that an
//     extent has. What would multiply beyond that is an error.
//
// # Failure
//
// Bad parts are an *Error that names the input and what was expected. An Extent built from bad
// parts carries its error, so that calls can be chained; it has no ranks. Nothing here panics.
package shape
