// Package shape is the geometry of meshes: extents with labelled dimensions, points, regions
// (slices of slices), selections of any ranks, and values by rank.
//
// # Use
//
//	e := shape.Of("host", 2).With("gpu", 4)        // 8 ranks
//	r, err := e.Region().Slice("gpu", 0, 2)        // 4 of them
//	r, err = shape.Select(e, "host=1,gpu=0:2")     // as people write it
//	for view, base := range r.Ranks() { … }        // dense rank in r, rank in e
//	s, err := shape.ParseSelection(e, "host=0 | gpu=3")
//	for rank := range s.Ranks() { … }              // any ranks of e
//	rs := shape.RanksOf(s.Ranks())                 // the same as a set of runs, with a short binary form
//
// # Selections
//
// A selection is a set of ranks of an extent. Its text has this grammar:
//
//	selection = [ union ] | "none" .
//	union     = inter { "|" inter } .                  either
//	inter     = chain { "&" chain } .                  both
//	chain     = atom { "," atom } .                    one dimension after another
//	atom      = [ label "=" ] spec | "(" union ")" .
//	spec      = "*" | index | range .                  all, one, some
//	range     = [ index ] ":" [ index ] [ ":" step ] . from, up to before, every step-th
//
// White space may stand between any two tokens. An atom selects in the dimension of its label.
// Without a label it takes the dimension after that of the atom before it, or else the first:
// `1,0:2`, `host=1,0:2` and `gpu=0:2,host=1` are the same. A chain may name a dimension once; it
// takes the other dimensions whole. Atoms after a union in a chain apply to each part of it:
// `(0|1:3),5` is `0,5 | 1:3,5`. By default a range begins at 0, ends at the size, and takes every
// index; an end beyond the size means the size. The empty text selects everything, and so does `*`.
//
// The extent without dimensions counts as one dimension of size 1 without a name.
//
// # Contract
//
// All types are immutable values; they may be used on any goroutine.
//
//   - SHP-1 (ranks): Ranks are row-major: the last dimension runs fastest. A cut of a region, also
//     of a slice or group, keeps base ranks and their order. Rank and Point are inverses; so are
//     BaseRank and ViewRank.
//   - SHP-4 (texts): Texts of extents, points, regions and selections round-trip through Parse and
//     String. Describe names exactly the given ranks, and Select reads every term of it back.
//   - SHP-6 (value mesh): A ValueMesh has exactly one value for every rank of its region. It reads
//     the same in both its forms, and after encoding and decoding.
//   - SHP-7 (selections): A Selection yields its ranks ascending, each once. It orders its regions
//     by first rank, without duplicates. Up to 1,024 regions, none lies within another. All ranks
//     are `*`, no ranks are `none`.
//   - SHP-11 (cost): Time and memory grow with the text, the runs or the yielded ranks, not with
//     the extent. An input that would multiply beyond that is an error. Ranks reads the bytes that
//     it writes, and no others.
//
// # Details
//
// Slices of slices and groups map their dense ranks to ranks of the first extent, in the same
// order. ViewRank refuses every rank outside of the region. A selection's text selects the same
// ranks and prints the same; the other texts round-trip unchanged.
//
// # Failure
//
// Invalid input returns an *Error with the input and the expected form. An Extent built from
// invalid parts carries its error, so that calls can be chained; it has no ranks. Nothing here
// panics.
package shape
