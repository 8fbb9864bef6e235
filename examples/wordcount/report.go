package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/shape"
)

const (
	topWords = 20
	barWidth = 40
	maxShown = 24 // letters of a word in the table
)

// introduce prints the hosts of the run.
func (s *story) introduce(hosts []agent.HostInfo, took time.Duration) {
	var names []string
	for _, h := range hosts {
		names = append(names, fmt.Sprintf("%s (pid %d)", h.Label, h.PID))
	}
	whose := "joined"
	if s.cluster != nil {
		whose = "our own"
	}
	fmt.Fprintf(s.out, "server  %s, %s\n", s.net.Bus().Data().URL(), whose)
	fmt.Fprintf(s.out, "hosts   %s\n", strings.Join(names, ", "))
	fmt.Fprintf(s.out, "mesh    %s: %s, %d procs with a counter each after %s\n",
		s.procs.ID(), s.procs.Extent(), s.procs.Extent().NumRanks(), brief(took))
	fmt.Fprintf(s.out, "corpus  %s, *%s\n", s.folder, s.suffix)
}

// where returns a rank's point in selection syntax.
func (s *story) where(rank int) string { return shape.Describe(s.counters.Extent(), []int{rank}) }

// ranks prints a line per rank.
func (s *story) ranks(shares shape.ValueMesh[counting.Share]) {
	width := 0
	for rank := range shares.Len() {
		width = max(width, len(s.where(rank)))
	}
	fmt.Fprintf(s.out, "\n%4s  %-*s  %-8s %8s %12s %9s\n", "rank", width, "point", "host", "files",
		"words", "ms")
	for point, share := range shares.All() {
		host := "?"
		if id, err := s.procs.Host(point.Rank()); err == nil {
			host = id.Label()
		}
		fmt.Fprintf(s.out, "%4d  %-*s  %-8s %8s %12s %9s\n", point.Rank(), width, s.where(point.Rank()), host,
			grouped(int64(share.Files)), grouped(share.Words), grouped(share.Took.Milliseconds()))
	}
}

// top prints the most frequent words.
func (s *story) top(counts map[string]int64) {
	fmt.Fprintln(s.out)
	entries := most(counts, topWords)
	for i, e := range entries {
		bar := strings.Repeat("█", int(max(1, e.n*barWidth/entries[0].n)))
		fmt.Fprintf(s.out, "%4d  %s %12s  %s\n", i+1, padded(e.word, maxShown), grouped(e.n), bar)
	}
}

func (s *story) summary(shares shape.ValueMesh[counting.Share], total counting.Total, counting,
	folding time.Duration) {
	files, words := 0, int64(0)
	for _, share := range shares.Values() {
		files, words = files+share.Files, words+share.Words
	}
	rate := int64(float64(files) / counting.Seconds())
	fmt.Fprintf(s.out, "\n%s files, %s words, %s of them different\n", grouped(int64(files)), grouped(words),
		grouped(int64(len(total.Counts))))
	fmt.Fprintf(s.out, "counted in %s: %s files/s\n", brief(counting), grouped(rate))
	fmt.Fprintf(s.out, "folded in %s: per host, then here (shards of the vocabulary: %d)\n",
		brief(folding), total.Shards)
}

// grouped formats a number as 1,234,567.
func grouped(n int64) string {
	if n < 0 {
		return "-" + grouped(-n)
	}
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// padded pads or cuts a word to a width in letters.
func padded(word string, width int) string {
	if letters := []rune(word); len(letters) > width {
		word = string(letters[:width-1]) + "…"
	}
	return word + strings.Repeat(" ", width-utf8.RuneCountInString(word))
}

// brief rounds a duration for readers.
func brief(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
