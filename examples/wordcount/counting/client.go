package counting

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
)

// maxMessage bounds a fold on any bus, so that each hop is fast.
const maxMessage = 512 << 10

// Limit returns the size limit of a fold on a bus with a given message size: half of it, with room
// for addresses.
func Limit(maxPayload int) int { return min(maxPayload/2, maxMessage) }

// Count makes every rank count its share and returns the results by rank.
func Count(ctx context.Context, m cast.Mesh[*Counter], j Job) (shape.ValueMesh[Share], error) {
	shares, err := cast.Gather(ctx, m, Start, j)
	if err != nil {
		return shares, err
	}
	first, _ := shares.At(0)
	for point, s := range shares.All() { // WC-1
		if s.Listed != first.Listed || s.Digest != first.Digest {
			return shares, fmt.Errorf("%s is not the same folder everywhere: rank 0 sees %d files, rank %d (%s) "+
				"sees %d, or others",
				j.Folder, first.Listed, point.Rank(), point, s.Listed)
		}
	}
	if first.Listed == 0 {
		return shares, fmt.Errorf("no file below %s ends in %q", j.Folder, j.Suffix)
	}
	return shares, nil
}

// Look folds the progress of all ranks.
func Look(ctx context.Context, m cast.Mesh[*Counter]) (Done, error) {
	return cast.Reduce(ctx, m, Progress, actor.None{}, Add)
}

// Total is a folded vocabulary.
type Total struct {
	Counts map[string]int64
	Shards int // number of shards used
}

// Fold collects the counts of all ranks, folded per host and then here. It starts with the given
// number of shards and messages of at most limit bytes (WC-3).
func Fold(ctx context.Context, m cast.Mesh[*Counter], shards, limit int) (Total, error) {
	for shards = max(shards, 1); shards <= maxShards; shards *= 2 {
		counts, fits, err := fold(ctx, m, shards, limit)
		if fits || err != nil {
			return Total{Counts: counts, Shards: shards}, err
		}
	}
	return Total{}, fmt.Errorf("words in %d shards still do not fit into messages of %d bytes", maxShards, limit)
}

// Shards estimates the number of shards for Fold. It treats the ranks' vocabularies as disjoint, so
// a shard rarely reaches the limit.
func Shards(shares shape.ValueMesh[Share], limit int) int {
	bytes := 0
	for _, s := range shares.Values() {
		bytes += s.Bytes
	}
	return min(1+bytes/max(limit, 1), maxShards)
}

// fold casts once per shard. It returns false if a shard exceeds the limit.
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
