package counting

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh/shape"
)

// maxMessage bounds a fold however much the bus would carry, to be quick in every hop.
const maxMessage = 512 << 10

// Limit is what a fold may take where the bus carries messages of maxPayload bytes: half of it, for
// addresses travel along.
func Limit(maxPayload int) int { return min(maxPayload/2, maxMessage) }

// Count has every rank count its share and returns what each did, by rank.
func Count(ctx context.Context, m cast.Mesh[*Counter], j Job) (shape.ValueMesh[Share], error) {
	shares, err := cast.Gather(ctx, m, Start, j)
	if err != nil {
		return shares, err
	}
	first, _ := shares.At(0)
	for point, s := range shares.All() { // WC-1
		if s.Listed != first.Listed || s.Digest != first.Digest {
			return shares, fmt.Errorf("%s is not the same folder everywhere: rank 0 sees %d files, rank %d (%s) sees %d, or others",
				j.Folder, first.Listed, point.Rank(), point, s.Listed)
		}
	}
	if first.Listed == 0 {
		return shares, fmt.Errorf("no file below %s ends in %q", j.Folder, j.Suffix)
	}
	return shares, nil
}

// Look folds what the ranks of a mesh have done so far.
func Look(ctx context.Context, m cast.Mesh[*Counter]) (Done, error) {
	return cast.Reduce(ctx, m, Progress, actor.None{}, Add)
}

// Total is a folded vocabulary.
type Total struct {
	Counts map[string]int64
	Shards int // that it took
}

// Fold collects the counts of all ranks, folded per host and then here, with messages of at most
// limit bytes, beginning with so many shards (WC-3).
func Fold(ctx context.Context, m cast.Mesh[*Counter], shards, limit int) (Total, error) {
	for shards = max(shards, 1); shards <= maxShards; shards *= 2 {
		counts, fits, err := fold(ctx, m, shards, limit)
		if fits || err != nil {
			return Total{Counts: counts, Shards: shards}, err
		}
	}
	return Total{}, fmt.Errorf("words in %d shards still do not fit into messages of %d bytes", maxShards, limit)
}

// Shards guesses how many Fold needs. It takes the ranks' vocabularies for disjoint; they are not, so
// a shard rarely comes near the limit.
func Shards(shares shape.ValueMesh[Share], limit int) int {
	bytes := 0
	for _, s := range shares.Values() {
		bytes += s.Bytes
	}
	return min(1+bytes/max(limit, 1), maxShards)
}

// fold casts once for every shard; false when one does not fit.
func fold(ctx context.Context, m cast.Mesh[*Counter], shards, limit int) (map[string]int64, bool, error) {
	counts := map[string]int64{}
	for i := range shards {
		t, err := cast.Reduce(ctx, m, Shard, Part{Index: i, Shards: shards, Limit: limit}, merge)
		if err != nil {
			return nil, false, fmt.Errorf("fold shard %d of %d: %w", i, shards, err)
		}
		if t.TooLarge {
			return nil, false, nil
		}
		for word, n := range t.Counts {
			counts[word] += n
		}
	}
	return counts, true, nil
}
