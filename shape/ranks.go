package shape

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
)

// RankRun is Count ranks from First on.
type RankRun struct{ First, Count int }

// End is the first rank behind the run.
func (r RankRun) End() int { return r.First + r.Count }

// Ranks is a set of ranks, held as ascending runs that do not touch: it takes memory for its runs,
// not for its ranks. It is an immutable value; the zero Ranks is no rank. Encoders of binary forms
// write it as bytes (SHP-11).
type Ranks struct{ runs []RankRun }

// Interval is count ranks from first on.
func Interval(first, count int) Ranks { return Ranks{[]RankRun{{first, count}}} }

// RanksOf collects ascending ranks.
func RanksOf(ascending iter.Seq[int]) Ranks {
	var w RanksWriter
	for rank := range ascending {
		w.Add(rank, 1)
	}
	return w.Ranks()
}

// RanksWriter collects ascending runs of ranks.
type RanksWriter struct{ runs []RankRun }

// Add adds count ranks that are all behind those before.
func (w *RanksWriter) Add(first, count int) {
	if n := len(w.runs); n > 0 && w.runs[n-1].End() == first {
		w.runs[n-1].Count += count
		return
	}
	w.runs = append(w.runs, RankRun{first, count})
}

// Ranks are those that were added. The writer must not be used again.
func (w *RanksWriter) Ranks() Ranks { return Ranks{w.runs} }

// Runs are the runs of the set, ascending: read them only.
func (rs Ranks) Runs() []RankRun { return rs.runs }

// IsEmpty reports whether the set has no rank.
func (rs Ranks) IsEmpty() bool { return len(rs.runs) == 0 }

// First is the lowest rank; 0 for no rank.
func (rs Ranks) First() int {
	if len(rs.runs) == 0 {
		return 0
	}
	return rs.runs[0].First
}

// Len is the number of ranks.
func (rs Ranks) Len() (n int) {
	for _, r := range rs.runs {
		n += r.Count
	}
	return n
}

// End is the first rank behind all ranks of the set; 0 for no rank.
func (rs Ranks) End() int {
	if len(rs.runs) == 0 {
		return 0
	}
	return rs.runs[len(rs.runs)-1].End()
}

// All yields the ranks, ascending.
func (rs Ranks) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range rs.runs {
			for rank := r.First; rank < r.End(); rank++ {
				if !yield(rank) {
					return
				}
			}
		}
	}
}

// at is the index of the first run that ends behind a rank.
func (rs Ranks) at(rank int) int {
	i, _ := slices.BinarySearchFunc(rs.runs, rank, func(r RankRun, rank int) int {
		if r.End() <= rank {
			return -1
		}
		return 1
	})
	return i
}

// Contains reports whether a rank is in the set.
func (rs Ranks) Contains(rank int) bool {
	i := rs.at(rank)
	return i < len(rs.runs) && rs.runs[i].First <= rank
}

// ContainsAll reports whether all ranks of another set are in this one.
func (rs Ranks) ContainsAll(others Ranks) bool {
	return !slices.ContainsFunc(others.runs, func(o RankRun) bool {
		i := rs.at(o.First)
		return i == len(rs.runs) || rs.runs[i].First > o.First || rs.runs[i].End() < o.End()
	})
}

// FirstAbsent is the first rank, from the given one on, outside the set.
func (rs Ranks) FirstAbsent(rank int) int {
	if i := rs.at(rank); i < len(rs.runs) && rs.runs[i].First <= rank {
		return rs.runs[i].End()
	}
	return rank
}

// Intersects reports whether a rank from first up to before end is in the set.
func (rs Ranks) Intersects(first, end int) bool {
	i := rs.at(first)
	return i < len(rs.runs) && rs.runs[i].First < end
}

// Within yields the runs of the set between two ranks, cut there.
func (rs Ranks) Within(first, end int) iter.Seq[RankRun] {
	return func(yield func(RankRun) bool) {
		for _, r := range rs.runs[rs.at(first):] {
			from := max(r.First, first)
			if to := min(r.End(), end); from >= to || !yield(RankRun{from, to - from}) {
				return
			}
		}
	}
}

// Complement is the ranks outside the set, from 0 up to before end.
func (rs Ranks) Complement(end int) Ranks {
	out := make([]RankRun, 0, len(rs.runs)+1)
	from := 0
	for r := range rs.Within(0, end) {
		if r.First > from {
			out = append(out, RankRun{from, r.First - from})
		}
		from = r.End()
	}
	if from < end {
		out = append(out, RankRun{from, end - from})
	}
	return Ranks{out}
}

// UnionOf is the ranks that are in any of some sets.
func UnionOf(sets ...Ranks) Ranks {
	n := 0
	for _, rs := range sets {
		n += len(rs.runs)
	}
	all := make([]RankRun, 0, n)
	for _, rs := range sets {
		all = append(all, rs.runs...)
	}
	slices.SortFunc(all, func(a, b RankRun) int { return cmp.Compare(a.First, b.First) })
	out := all[:0]
	for _, r := range all {
		last := len(out) - 1
		if last < 0 || r.First > out[last].End() {
			out = append(out, r)
		} else if more := r.End() - out[last].End(); more > 0 {
			out[last].Count += more
		}
	}
	return Ranks{out}
}

// MarshalBinary writes two varints for each run: the distance from the end of the run before, and
// the count.
func (rs Ranks) MarshalBinary() ([]byte, error) {
	out := make([]byte, 0, 2*len(rs.runs))
	end := 0
	for _, r := range rs.runs {
		out = binary.AppendUvarint(out, uint64(r.First-end))
		out = binary.AppendUvarint(out, uint64(r.Count))
		end = r.End()
	}
	return out, nil
}

// UnmarshalBinary reads a set. It accepts what MarshalBinary writes, and nothing else.
func (rs *Ranks) UnmarshalBinary(data []byte) error {
	out := make([]RankRun, 0, len(data)/2)
	end := 0
	for rest := data; len(rest) > 0; {
		gap, n := binary.Uvarint(rest)
		count, m := binary.Uvarint(rest[max(n, 0):])
		if n <= 0 || m <= 0 || count == 0 || gap > MaxRanks || count > MaxRanks ||
			gap == 0 && end > 0 || int(gap+count) > MaxRanks-end {
			return &Error{
				What: "set of ranks", Input: fmt.Sprintf("%x", data),
				Want: "runs that do not touch, each two varints: a distance and a count",
			}
		}
		rest = rest[n+m:]
		out = append(out, RankRun{end + int(gap), int(count)})
		end = out[len(out)-1].End()
	}
	*rs = Ranks{out}
	return nil
}
