package logfile

import (
	"strings"
	"testing"
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

func FuzzLastLines(f *testing.F) {
	f.Add([]byte("ipped\na\nb"), true, 1)
	f.Add([]byte("only"), true, 9)
	f.Add([]byte("\n\xff\n"), false, 2)
	f.Fuzz(func(t *testing.T, data []byte, clipped bool, n int) {
		if n < 0 || len(data) > tailBytes {
			return
		}
		got := lastLines(data, clipped, n)
		require.LessOrEqual(t, len(got), n)
		for _, line := range got {
			require.True(t, utf8.ValidString(line))
			require.NotContains(t, line, "\n")
		}
	})
}
