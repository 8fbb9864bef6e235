package logfile

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// linesOracle is the definition, for a complete text.
func linesOracle(text string) []string {
	all := strings.Split(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	for i, line := range all {
		if len(line) <= MaxLine {
			continue
		}
		line = line[:MaxLine]
		for tail := 1; tail < utf8.UTFMax; tail++ {
			if b := line[len(line)-tail]; utf8.RuneStart(b) {
				if !utf8.FullRuneInString(line[len(line)-tail:]) {
					line = line[:len(line)-tail]
				}
				break
			}
		}
		all[i] = line + TruncatedMark
	}
	return all
}

func splitInChunks(text string, chunk int) (got []string) {
	l := lineSplitter{emit: func(line []byte) { got = append(got, string(line)) }}
	for len(text) > 0 {
		n := min(chunk, len(text))
		l.feed([]byte(text[:n]))
		text = text[n:]
	}
	l.flush()
	return got
}

func TestLines_areCutAtTheLimitBetweenRunes_LOG1(t *testing.T) {
	exact := strings.Repeat("x", MaxLine)
	for name, tt := range map[string]struct {
		in   string
		want []string
	}{
		"nothing":          {"", nil},
		"empty lines":      {"\n\n", []string{"", ""}},
		"no newline":       {"a\nb", []string{"a", "b"}},
		"exactly the most": {exact + "\n", []string{exact}},
		"one too many":     {exact + "y\nz\n", []string{exact + TruncatedMark, "z"}},
		"unfinished":       {exact + "y", []string{exact + TruncatedMark}},
		"rune across":      {exact[1:] + "é\n", []string{exact[1:] + TruncatedMark}},
		"rune before":      {exact[2:] + "éy\n", []string{exact[2:] + "é" + TruncatedMark}},
		"not text": {exact[4:] + "\x80\x80\x80\x80\x80\n",
			[]string{exact[4:] + "\x80\x80\x80\x80" + TruncatedMark}},
	} {
		for _, chunk := range []int{1, 7, 1 << 20} {
			require.Equal(t, tt.want, splitInChunks(tt.in, chunk), "%s by %d", name, chunk)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb\n\nc", 2, 1)
	f.Add("é\n", 1, 3000)
	f.Add("\xff\xc3", 5, 4095)
	f.Fuzz(func(t *testing.T, text string, chunk, repeat int) {
		if len(text) == 0 || chunk < 1 || repeat < 1 || repeat*len(text) > 1<<16 {
			return
		}
		text = strings.Repeat(text, repeat)
		require.Equal(t, linesOracle(text), splitInChunks(text, chunk))
	})
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("ipped\na\nb"), int64(3), 1)
	f.Add([]byte("only"), int64(0), 9)
	f.Add([]byte("\n\xff\n"), int64(1), 2)
	f.Fuzz(func(t *testing.T, data []byte, start int64, n int) {
		if n < 0 || start < 0 || len(data) > 2*tailBytes {
			return
		}
		path := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		got := File{Path: path, Start: start}.Tail(n)
		require.LessOrEqual(t, len(got), n)
		for _, line := range got {
			require.True(t, utf8.ValidString(line))
			require.NotContains(t, line, "\n")
		}
	})
}

func TestSelect_returnsLinesByTimeAndContentFromBeyondTheTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	text := "unknown 1\nold 2\n" + strings.Repeat("filler\n", 20_000) + "new 3\nunread 4\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f, begun := File{Path: path}, time.Now().Add(-time.Hour)
	var m Marks
	m.Begin(int64(len("unknown 1\n")))
	m.Add(int64(len("unknown 1\nold 2\n")), begun)
	m.Add(int64(len(text)-len("new 3\nunread 4\n")), begun.Add(time.Minute))
	m.Add(int64(len(text)-len("unread 4\n")), begun.Add(2*time.Minute))
	all := f.Select(Selection{Lines: 9, Match: regexp.MustCompile(`[0-9]$`)}, &m).Lines
	require.Len(t, all, 4)
	require.Equal(t, []Line{{Text: "unknown 1"}, {"old 2", begun}, {"new 3", begun.Add(2 * time.Minute)}}, all[:3])
	require.WithinDuration(t, time.Now(), all[3].At, time.Minute)
	since := Selection{Lines: 9, Since: begun.Add(90 * time.Second)}
	require.Equal(t, all[2:3], f.Select(since, &m).Lines[:1])
	since.Lines = 1
	require.Equal(t, "unread 4", f.Select(since, &m).Lines[0].Text)
	require.Empty(t, f.Select(since, &Marks{}).Lines, "lines of an unknown time")
}

func TestMarks_areBoundedAndKeepTheirOrder(t *testing.T) {
	var m Marks
	begun := time.Now()
	require.Zero(t, m.at(0, begun))
	m.Begin(0)
	require.Equal(t, begun, m.at(0, begun), "a line that was not read is of now")
	for i := range 10 * maxMarks {
		m.Add(int64(10*i+10), begun.Add(time.Duration(i)*time.Second))
	}
	require.LessOrEqual(t, len(m.all), maxMarks)
	for offset := range int64(100 * maxMarks) {
		line := begun.Add(time.Duration(offset/10) * time.Second)
		age := time.Duration(10*maxMarks-offset/10) * time.Second
		require.WithinRange(t, m.at(offset, time.Time{}), line, line.Add(age/agePerGap+time.Second))
	}
}
