// Package shape is the geometry of meshes: extents with labelled dimensions, points, regions that
// are slices of slices, and values by rank.
//
// # Use
//
//	e := shape.Of("host", 2).With("gpu", 4)        // 8 ranks
//	r, err := e.Region().Slice("gpu", 0, 2)        // 4 of them
//	r, err = shape.Select(e, "host=1,gpu=0:2")     // as people write it
//	for view, base := range r.Ranks() { … }        // dense rank in r, rank in e
//
// # Contract
//
// All types are immutable values; they may be used on any goroutine.
//
//   - SHP-1: ranks are row-major: the last dimension runs fastest. Rank and Point are inverses.
//   - SHP-2: slicing keeps base ranks: a slice of a slice still says which ranks of the first
//     extent its own dense ranks stand for, in the same order.
//   - SHP-3: BaseRank and ViewRank are inverses on the region; ViewRank refuses every other rank.
//   - SHP-4: Describe names exactly the ranks it was given; Select reads every term of it back.
//   - SHP-5: texts round-trip: what a Parse function accepts, String gives back unchanged.
//   - SHP-6: a ValueMesh has exactly one value for every rank of its region.
//
// # Failure
//
// Bad parts are an *Error that names the input and what was expected. An Extent built from bad
// parts carries its error, so that calls can be chained; it has no ranks. Nothing here panics.
package shape
