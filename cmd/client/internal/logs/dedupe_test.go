package logs

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/agent"
)

// A file has distinct lines. The test reads its last n at some moment, and gets its published lines
// from an earlier moment on. The tail and the remaining published lines must be the file from the
// tail's begin, exactly.
func TestDedupeTail_neitherLosesNorRepeatsLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 30).Draw(t, "size")
		file := make([]string, size)
		for i := range file {
			file[i] = strconv.Itoa(i)
		}
		read := rapid.IntRange(0, size).Draw(t, "read")
		n := rapid.IntRange(1, 10).Draw(t, "n")
		tail := file[max(0, read-n):read]
		live := file[rapid.IntRange(0, read).Draw(t, "from"):]
		got := append(append([]string{}, tail...), dedupeTail(tail, live)...)
		want := append([]string{}, file[max(0, read-n):]...)
		if len(tail) == 0 {
			want = append([]string{}, live...)
		}
		require.Equal(t, want, got)
	})
}

func TestDropShown_dropsLinesThatTailsShowed(t *testing.T) {
	line := func(rank int, stream, text string) Record {
		return Record{Rank: rank, Stream: stream, Line: text}
	}
	early := []Record{line(0, "stdout", "a"), line(1, "stdout", "a"), line(0, "stderr", "a"),
		line(0, "stdout", "b")}
	tails := []agent.LogTail{{Rank: 0, Stream: "stdout", Lines: []string{"x", "a"}}, {Rank: 0, Stream: "stderr"},
		{Rank: 1, Stream: "stdout", Lines: []string{"z"}}}
	require.Equal(t, []Record{early[1], early[2], early[3]}, dropShown(early, tails))
}
