package logfile

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// linesOf returns the texts of lines.
func linesOf(all []Line) (texts []string) {
	for _, l := range all {
		texts = append(texts, l.Text)
	}
	return texts
}

// A file grows between reads with small budgets. Together they have each whole line once, in order.
func TestRead_partsHaveEachLineOnce_LOG2(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		file := logOf(t, "earlier\n")
		f := File{Path: file.Name(), Start: int64(len("earlier\n"))}
		var want, got []string
		text := ""
		at := int64(-1)
		read := func(ended bool) Part {
			p := f.Read(Reading{From: at, Bytes: rapid.IntRange(1, 60).Draw(rt, "bytes"), PerLine: 3, Ended: ended},
				&Marks{})
			require.LessOrEqual(rt, p.Start, p.Next)
			if len(p.Lines) > 0 || at >= 0 {
				at = p.Next
			}
			got = append(got, linesOf(p.Lines)...)
			return p
		}
		for i := range rapid.IntRange(0, 20).Draw(rt, "writes") {
			part := rapid.SampledFrom([]string{"\n", "x", "long line %d\n", "two %d\nlines\n"}).Draw(rt, "write")
			part = strings.ReplaceAll(part, "%d", fmt.Sprint(i))
			text += part
			_, err := file.WriteString(part)
			require.NoError(rt, err)
			read(false)
		}
		for read(true).More {
		}
		want = append(want, strings.Split(text, "\n")...)
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		if len(want) == 0 {
			want = nil
		}
		require.Equal(rt, want, got)
	})
}

func TestRead_lagIsDroppedAndCounted_LOG2(t *testing.T) {
	file := logOf(t, "")
	f := File{Path: file.Name()}
	const line = "0123456789abcde\n"
	const n = (maxLag + 4*tailBytes) / len(line)
	_, err := file.WriteString(strings.Repeat(line, n))
	require.NoError(t, err)
	p := f.Read(Reading{From: -1, Bytes: 1 << 30}, &Marks{})
	require.Zero(t, p.DroppedBytes)
	require.Equal(t, n, p.DroppedLines+len(p.Lines))
	require.Equal(t, tailBytes/len(line), len(p.Lines))

	require.NoError(t, punchHole(file, 0, 1024*int64(len(line))))
	p = f.Read(Reading{From: 160, Bytes: 1 << 30}, &Marks{})
	require.EqualValues(t, 1024*len(line)-160, p.DroppedBytes, "discarded lines cannot be counted")
	require.Equal(t, n-1024, p.DroppedLines+len(p.Lines))
	require.False(t, p.More)

	p = f.Read(Reading{From: p.Next - int64(2*len(line)), Bytes: 1, Match: regexp.MustCompile("^x")}, &Marks{})
	require.Empty(t, p.Lines)
	require.EqualValues(t, n*len(line), p.Next, "other lines are passed over")
}

func TestRead_restartedFileIsReadFromItsBeginning(t *testing.T) {
	file := logOf(t, "next\npart")
	p := File{Path: file.Name()}.Read(Reading{From: 100, Bytes: 99}, &Marks{})
	require.Equal(t, Part{Lines: p.Lines, Start: 100, Next: 5}, p)
	require.Equal(t, []string{"next"}, linesOf(p.Lines))
	require.NoError(t, os.Remove(file.Name()))
	require.Equal(t, Part{Start: 7, Next: 7}, File{Path: file.Name()}.Read(Reading{From: 7}, &Marks{}))
}

func TestSelect_leavesOutAnUnfinishedLine(t *testing.T) {
	f := File{Path: logOf(t, "a\nb\nunfini").Name()}
	p := f.Select(Selection{Lines: 1, Whole: true}, &Marks{})
	require.Equal(t, []string{"b"}, linesOf(p.Lines))
	require.EqualValues(t, 4, p.Next)
	require.EqualValues(t, 4, f.Select(Selection{Whole: true}, &Marks{}).Next)
	require.Equal(t, []string{"b", "unfini"}, f.Tail(2))
}
