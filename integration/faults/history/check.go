package history

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is what Check found: each a number of messages.
type Verdict struct {
	Sent, Handled int

	// Violations.
	Lost, Duplicated, Reordered, Lies, Stale, Invented, Corrupt, Unsettled int

	// Outcomes that faults permit.
	Undeliverable int // known not to have been handled
	Indeterminate int // unknown fate
	Gone          int // delivered to a process that was killed before it handled them

	// Examples are the first few findings of what must not be.
	Examples []string
}

// maxExamples bounds Verdict.Examples.
const maxExamples = 10

// Wrong is the number of findings of what must not be.
func (v Verdict) Wrong() int {
	return v.Lost + v.Duplicated + v.Reordered + v.Lies + v.Stale + v.Invented + v.Corrupt + v.Unsettled
}

// Plus is the sum of two verdicts.
func (v Verdict) Plus(o Verdict) Verdict {
	sum := Verdict{
		Sent: v.Sent + o.Sent, Handled: v.Handled + o.Handled,
		Lost: v.Lost + o.Lost, Duplicated: v.Duplicated + o.Duplicated, Reordered: v.Reordered + o.Reordered,
		Lies: v.Lies + o.Lies, Stale: v.Stale + o.Stale, Invented: v.Invented + o.Invented,
		Corrupt: v.Corrupt + o.Corrupt, Unsettled: v.Unsettled + o.Unsettled,
		Undeliverable: v.Undeliverable + o.Undeliverable, Indeterminate: v.Indeterminate + o.Indeterminate,
		Gone: v.Gone + o.Gone,
	}
	sum.Examples = append(append(sum.Examples, v.Examples...), o.Examples...)
	sum.Examples = sum.Examples[:min(len(sum.Examples), maxExamples)]
	return sum
}

// String is the verdict in one line. Except for the first three, counts of zero are left out.
func (v Verdict) String() string {
	s := fmt.Sprintf("lost=%d duplicated=%d reordered=%d of %d", v.Lost, v.Duplicated, v.Reordered, v.Sent)
	for _, c := range []struct {
		name string
		n    int
	}{{"lies", v.Lies}, {"stale", v.Stale}, {"invented", v.Invented}, {"corrupt", v.Corrupt},
		{"unsettled", v.Unsettled}} {
		if c.n > 0 {
			s += fmt.Sprintf(", %s=%d", c.name, c.n)
		}
	}
	return s + fmt.Sprintf(", indeterminate=%d, undeliverable=%d", v.Indeterminate, v.Undeliverable)
}

// stream is everything that is known of one Stream.
type stream struct {
	Stream
	sent     map[uint64]time.Time
	handled  map[uint64]bool
	fates    map[uint64]Kind // of those whose number is known
	nameless map[Kind]int    // fates of those whose number is not
	newest   uint64          // the highest number handled
}

// checker collects records.
type checker struct {
	verdict Verdict
	streams map[Stream]*stream
	order   []*stream // as they were first seen
	settled map[string]bool
	ended   map[string]time.Time // processes, when they were killed at the latest
}

// Check judges a history: the records of all processes, those of each in its order.
func Check(records []Record) Verdict {
	c := &checker{streams: map[Stream]*stream{}, settled: map[string]bool{}, ended: map[string]time.Time{}}
	for _, r := range records {
		c.note(r)
	}
	for _, r := range records {
		if r.Kind == Handled {
			c.handle(r)
		}
	}
	for _, s := range c.order {
		c.judge(s)
	}
	return c.verdict
}

// wrong adds an example of what must not be.
func (c *checker) wrong(s *stream, what string, n int, of uint64) int {
	if n > 0 && len(c.verdict.Examples) < maxExamples {
		about := fmt.Sprintf("%d messages", n)
		if of > 0 {
			about = fmt.Sprintf("message %d", of)
		}
		c.verdict.Examples = append(c.verdict.Examples,
			fmt.Sprintf("%s: %s of %s to %s", what, about, s.From, s.To))
	}
	return n
}

func (c *checker) stream(key Stream) *stream {
	s := c.streams[key]
	if s == nil {
		s = &stream{Stream: key, sent: map[uint64]time.Time{}, handled: map[uint64]bool{}, fates: map[uint64]Kind{},
			nameless: map[Kind]int{}}
		c.streams[key] = s
		c.order = append(c.order, s)
	}
	return s
}

// note records the fates at senders; handlings follow once all sent messages are known.
func (c *checker) note(r Record) {
	switch r.Kind {
	case Settled:
		c.settled[r.Stream.From] = true
	case Ended:
		c.ended[r.Stream.To] = r.At
	case Sent:
		c.stream(r.Stream).sent[r.N] = r.At
	case Corrupt:
		c.verdict.Corrupt += c.wrong(c.stream(r.Stream), "corrupt", 1, r.N)
	case Undeliverable, Indeterminate, Answered:
		s := c.stream(r.Stream)
		switch {
		case r.N == 0:
			s.nameless[r.Kind]++
		default:
			if was, twice := s.fates[r.N]; twice {
				c.verdict.Lies += c.wrong(s, fmt.Sprintf("told two fates, %s and %s", was, r.Kind), 1, r.N)
			}
			s.fates[r.N] = r.Kind
		}
	}
}

// handle takes down that a handler has begun.
func (c *checker) handle(r Record) {
	s := c.stream(r.Stream)
	switch {
	case !s.isSent(r.N):
		c.verdict.Invented += c.wrong(s, "handled, and nobody sent it", 1, r.N)
	case r.Note != s.To:
		c.verdict.Stale += c.wrong(s, "handled by "+r.Note, 1, r.N)
	case s.handled[r.N]:
		c.verdict.Duplicated += c.wrong(s, "handled again", 1, r.N)
	case r.N < s.newest:
		c.verdict.Reordered += c.wrong(s, fmt.Sprintf("handled after %d", s.newest), 1, r.N)
	}
	s.handled[r.N] = true
	s.newest = max(s.newest, r.N)
}

func (s *stream) isSent(n uint64) bool {
	_, ok := s.sent[n]
	return ok
}

// judge compares the sent messages, the handled ones and the fates of one stream.
func (c *checker) judge(s *stream) {
	v := &c.verdict
	v.Sent += len(s.sent)
	died, dead := c.end(s.To)
	silent, tooLate := 0, 0 // not handled, without a fate by number; and sent to a dead process
	last := uint64(0)
	for n, at := range s.sent {
		fate, told := s.fates[n]
		switch {
		case s.handled[n]:
			v.Handled++
			if fate == Undeliverable {
				v.Lies += c.wrong(s, "undeliverable, and handled", 1, n)
			}
		case fate == Answered:
			v.Lost += c.wrong(s, "answered, and not handled", 1, n)
		case !told:
			silent, last = silent+1, max(last, n)
			if dead && at.After(died) {
				tooLate++
			}
		}
		switch fate {
		case Undeliverable:
			v.Undeliverable++
		case Indeterminate:
			v.Indeterminate++
		}
	}
	back, unknown := s.nameless[Undeliverable], s.nameless[Indeterminate]
	v.Undeliverable += back
	v.Indeterminate += unknown
	v.Lies += c.wrong(s, "undeliverable, and handled", max(0, back-silent), 0)
	c.judgeOpen(s, max(0, silent-back-unknown), max(0, tooLate-back-unknown), last)
}

// judgeOpen judges the messages of a stream without handling and fate, and those of them that were
// sent to a dead process.
func (c *checker) judgeOpen(s *stream, open, tooLate int, last uint64) {
	v := &c.verdict
	_, dead := c.end(s.To)
	_, mute := c.end(s.From)
	switch {
	case mute: // no sender is left to learn of it
	case !c.settled[s.From]:
		v.Unsettled += c.wrong(s, "no fate", open, 0)
	case dead:
		v.Lost += c.wrong(s, "lost, sent to a dead process", tooLate, 0)
		v.Gone += open - tooLate
	default:
		v.Lost += c.wrong(s, fmt.Sprintf("lost, the last of them perhaps %d", last), open, 0)
	}
}

// end is when the process of an actor was killed, if it was: an actor's name starts with its
// process's and a slash.
func (c *checker) end(actor string) (time.Time, bool) {
	at, dead := c.ended[actor[:max(0, strings.LastIndexByte(actor, '/'))]]
	return at, dead
}
