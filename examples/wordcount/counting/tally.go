package counting

import (
	"hash/crc32"
	"maps"

	"github.com/castnet-io/castnet/actor"
)

// entryOverhead bounds the bytes of a word and its count in a message, besides the letters.
const entryOverhead = 12

// Tally holds the counts of one shard.
type Tally struct {
	Counts   map[string]int64 `json:"counts"`
	Limit    int              `json:"limit"`               // maximum size in a message, in bytes
	TooLarge bool             `json:"too_large,omitempty"` // Limit exceeded, Counts empty
}

// newTally returns the counts, or the mark TooLarge.
func newTally(counts map[string]int64, limit int) Tally {
	if size(counts) > limit {
		return Tally{Limit: limit, TooLarge: true}
	}
	return Tally{Counts: counts, Limit: limit}
}

// merge adds tallies. Whether a sum is too large depends only on its words, and TooLarge is kept,
// so the order of merges does not matter.
var merge = actor.NewReducer("tallies", func(a, b Tally) (Tally, error) {
	if a.TooLarge || b.TooLarge {
		return Tally{Limit: a.Limit, TooLarge: true}, nil
	}
	sum := maps.Clone(a.Counts) // a may belong to the rank itself
	if sum == nil {
		return b, nil
	}
	for word, n := range b.Counts {
		sum[word] += n
	}
	return newTally(sum, a.Limit), nil
})

// size bounds the size of counts in a message.
func size(counts map[string]int64) (bytes int) {
	for word := range counts {
		bytes += len(word) + entryOverhead
	}
	return bytes
}

// cut assigns words to shards by hash, the same at every rank.
func cut(counts map[string]int64, shards int) []map[string]int64 {
	out := make([]map[string]int64, shards)
	for i := range out {
		out[i] = map[string]int64{}
	}
	for word, n := range counts {
		out[shardOf(word, shards)][word] = n
	}
	return out
}

func shardOf(word string, shards int) int {
	return int(uint64(crc32.ChecksumIEEE([]byte(word))) % uint64(shards))
}
