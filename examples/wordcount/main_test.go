package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/examples/wordcount/counting"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse_defaultsToTwoHostsAndAnAbsolutePath(t *testing.T) {
	s, err := parse([]string{"--hostd", "bin/hostd", "."}, io.Discard)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(s.folder, "/examples/wordcount"), s.folder)
	require.Equal(t, ownHosts, s.hosts)
	s, err = parse([]string{"--hosts", "3", "."}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 3, s.hosts)
	s, err = parse(nil, io.Discard)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(s.folder, "/src"), s.folder)
}

func TestNumbers_groupDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 12345678: "12,345,678",
		-1234: "-1,234"} {
		require.Equal(t, want, grouped(n))
	}
}

func TestWords_areTruncatedAndPaddedByRunes(t *testing.T) {
	require.Equal(t, "größe ", padded("größe", 6))
	require.Equal(t, "größ…", padded("größer", 5))
}

func TestDurations_areBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234 * time.Microsecond: "1.2 ms", 56789 * time.Microsecond: "56 ms", 3456 * time.Millisecond: "3.5 s",
	} {
		require.Equal(t, want, brief(d))
	}
}

func TestMost_sortsByCountThenByWord(t *testing.T) {
	counts := map[string]int64{"b": 2, "a": 2, "c": 9, "d": 1}
	require.Equal(t, []entry{{"c", 9}, {"a", 2}, {"b", 2}}, most(counts, 3))
	require.Len(t, most(counts, 20), 4)
}

func TestDraw_isABarOnATerminalAndALineElsewhere(t *testing.T) { // DEMO-1
	var out strings.Builder
	done := counting.Done{Files: 1500, Of: 2000}
	draw(&out, true, done, 3*time.Second)
	require.Equal(t, "\r\x1b[Kcounting "+strings.Repeat("━", 30)+strings.Repeat("─", 10)+
		" 1,500 of 2,000 files, 500 files/s", out.String())
	out.Reset()
	draw(&out, false, done, 3*time.Second)
	require.Equal(t, "counting: 1,500 of 2,000 files, 500 files/s\n", out.String())
}
