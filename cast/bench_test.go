package cast_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
)

// The cost of each rank in a cast to ranks of one process.

const crowd = 512

func BenchmarkReduce_512RanksInOneProcess(b *testing.B) {
	c := newCrowd(b, shape.Of("rank", crowd), crowd, crowd)
	for b.Loop() {
		sum, err := cast.Reduce(b.Context(), c.members, who, actor.None{}, cast.Sum[int]())
		require.NoError(b, err)
		require.Equal(b, crowd*(crowd-1)/2, sum)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/crowd, "ns/rank")
}

func BenchmarkGather_512RanksInOneProcess(b *testing.B) {
	c := newCrowd(b, shape.Of("rank", crowd), crowd, crowd)
	text := strings.Repeat("x", 60)
	for b.Loop() {
		all, err := cast.Gather(b.Context(), c.members, name, text)
		require.NoError(b, err)
		require.Equal(b, crowd, all.Len())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/crowd, "ns/rank")
}

func BenchmarkReduce_64RanksIn8Processes(b *testing.B) {
	const ranks = 64
	c := newCrowd(b, shape.Of("rank", ranks), ranks/8, ranks/8)
	for b.Loop() {
		sum, err := cast.Reduce(b.Context(), c.members, who, actor.None{}, cast.Sum[int]())
		require.NoError(b, err)
		require.Equal(b, ranks*(ranks-1)/2, sum)
	}
}
