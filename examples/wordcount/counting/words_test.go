package counting

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func words(t testing.TB, text string) (out []string) {
	require.NoError(t, Words(strings.NewReader(text), func(w []byte) { out = append(out, string(w)) }))
	return out
}

func TestWords_areLowerCaseRunsWithoutNumbers(t *testing.T) {
	for text, want := range map[string][]string{
		"":                        nil,
		" \n\t":                   nil,
		"one":                     {"one"},
		"func (c *Counter) Add()": {"func", "c", "counter", "add"},
		"snake_case x1 0x1F":      {"snake_case", "x1"},
		"ÄRGER über ångström":     {"ärger", "über", "ångström"},
		"漢字 ٣٤ _1 1_":             {"漢字", "_1"},
		"a\xffb":                  {"a", "b"},
		"a\ufffdb":                {"a", "b"},
		"it's":                    {"it", "s"},
	} {
		require.Equal(t, want, words(t, text), "%q", text)
	}
}

func TestWords_skipOverlongRuns(t *testing.T) {
	long := strings.Repeat("x", MaxWord)
	require.Equal(t, []string{"a", long, "b"}, words(t, "a "+long+" "+long+"y b"))
	require.Equal(t, []string{"b"}, words(t, strings.Repeat("ä", 1<<20)+" b"))
}

func TestWords_reportAReaderThatFails(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("one two"), iotest.ErrReader(errors.New("bad disk")))
	require.ErrorContains(t, Words(broken, func([]byte) {}), "bad disk")
}

// oracle computes the same in a slow way.
func oracle(text string) (out []string) {
	for _, w := range regexp.MustCompile(`[\pL\p{Nd}_]+`).FindAllString(text, -1) {
		if w = strings.ToLower(w); len(w) <= MaxWord && !regexp.MustCompile(`^\p{Nd}`).MatchString(w) {
			out = append(out, w)
		}
	}
	return out
}

func FuzzWords(f *testing.F) {
	for _, seed := range []string{"", "a b", "Straße İ_ſ\xff٣", strings.Repeat("é", 70) + " x",
		"\xe2\x82 \xe2\x82\xac"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		require.Equal(t, oracle(text), words(t, text))
	})
}
