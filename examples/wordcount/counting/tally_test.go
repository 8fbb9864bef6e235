package counting

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func someCounts(t *rapid.T, label string) map[string]int64 {
	return rapid.MapOf(rapid.StringMatching(`[a-f]{1,3}`), rapid.Int64Range(1, 9)).Draw(t, label)
}

func folded(t require.TestingT, a, b Tally) Tally {
	sum, err := merge.Fold(a, b)
	require.NoError(t, err)
	return sum
}

func TestMerge_isCommutative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 400).Draw(t, "limit")
		a := newTally(someCounts(t, "a"), limit)
		b := newTally(someCounts(t, "b"), limit)
		c := newTally(someCounts(t, "c"), limit)
		want := folded(t, folded(t, a, b), c)
		require.Equal(t, want, folded(t, a, folded(t, b, c)))
		require.Equal(t, want, folded(t, folded(t, c, b), a))
		require.LessOrEqual(t, size(want.Counts), limit)
	})
}

func TestCut_putsEachWordIntoOneShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := someCounts(t, "a"), someCounts(t, "b")
		shards := rapid.IntRange(1, 7).Draw(t, "shards")
		sum := map[string]int64{}
		for i, part := range cut(a, shards) {
			for word, n := range part {
				require.NotContains(t, sum, word)
				require.Equal(t, i, shardOf(word, shards))
				sum[word] = n
			}
		}
		require.Equal(t, a, sum)
		for i, part := range cut(b, shards) {
			for word := range part {
				require.Equal(t, i, shardOf(word, shards), "every rank has a word in the same shard")
			}
		}
	})
}

func TestShare_givesEveryFileToOneRank(t *testing.T) { // WC-1
	tree := fstest.MapFS{}
	for _, name := range []string{"z.go", "a/b.go", "a.go", "a/c.txt", "a-b/x.go", ".hidden.go"} {
		tree[name] = &fstest.MapFile{}
	}
	files, err := list(t.Context(), tree, ".go")
	require.NoError(t, err)
	require.Equal(t, []string{".hidden.go", "a-b/x.go", "a.go", "a/b.go", "z.go"}, files)
	for ranks := 1; ranks < 8; ranks++ {
		seen := map[string]int{}
		for rank := range ranks {
			for _, f := range share(files, rank, ranks) {
				seen[f]++
			}
		}
		require.Len(t, seen, len(files))
		for f, n := range seen {
			require.Equal(t, 1, n, f)
		}
	}
}

func TestDigest_differsForDifferentLists(t *testing.T) { // WC-1
	require.Equal(t, digest([]string{"a", "b"}), digest([]string{"a", "b"}))
	require.NotEqual(t, digest([]string{"a", "b"}), digest([]string{"ab"}))
	require.NotEqual(t, digest([]string{"a", "b"}), digest([]string{"b", "a"}))
}
