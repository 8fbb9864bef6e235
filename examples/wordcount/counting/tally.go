package counting

import (
	"hash/crc32"
	"maps"

	"github.com/castnet-io/castnet/actor"
)

// entryOverhead is what a word and its count take in a message besides the letters, at most: the
// heads of a text and of a number.
const entryOverhead = 12

// Tally is how often words of one shard occur.
type Tally struct {
	Counts   map[string]int64 `json:"counts"`
	Limit    int              `json:"limit"`               // bytes it may take in a message
	TooLarge bool             `json:"too_large,omitempty"` // it would take more; Counts is empty then
}

// newTally holds counts, or says that they are too large.
func newTally(counts map[string]int64, limit int) Tally {
	if size(counts) > limit {
		return Tally{Limit: limit, TooLarge: true}
	}
	return Tally{Counts: counts, Limit: limit}
}

// merge adds tallies up. Whether the sum is too large depends on its words alone, and what is too
// large stays so: the order of merging does not matter.
var merge = actor.NewReducer("tallies", func(a, b Tally) (Tally, error) {
	if a.TooLarge || b.TooLarge {
		return Tally{Limit: a.Limit, TooLarge: true}, nil
	}
	sum := maps.Clone(a.Counts) // a may be the rank's own
	if sum == nil {
		return b, nil
	}
	for word, n := range b.Counts {
		sum[word] += n
	}
	return newTally(sum, a.Limit), nil
})

// size bounds what counts take in a message.
func size(counts map[string]int64) (bytes int) {
	for word := range counts {
		bytes += len(word) + entryOverhead
	}
	return bytes
}

// cut deals the words out to shards by their hash, so that a word is in the same shard at every
// rank.
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
