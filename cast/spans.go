package cast

import "slices"

// span is Count ranks from First on.
type span struct {
	First int `cbor:"1,keyasint"`
	Count int `cbor:"2,keyasint"`
}

func (s span) end() int { return s.First + s.Count }

// ranks is a set of view ranks: ascending, separate spans.
type ranks []span

// with adds ranks that are all behind those of the set.
func (rs ranks) with(s span) ranks {
	if n := len(rs); n > 0 && rs[n-1].end() == s.First {
		rs[n-1].Count += s.Count
		return rs
	}
	return append(rs, s)
}

// valid reports whether a peer's spans are a set within n ranks.
func (rs ranks) valid(n int) bool {
	from := 0
	for _, s := range rs {
		if s.First < from || s.Count < 1 || s.Count > n-s.First {
			return false
		}
		from = s.end()
	}
	return true
}

// at is the index of the first span that ends after a rank.
func (rs ranks) at(rank int) int {
	i, _ := slices.BinarySearchFunc(rs, rank, func(s span, rank int) int {
		if s.end() <= rank {
			return -1
		}
		return 1
	})
	return i
}

// count is how many ranks are in the set.
func (rs ranks) count() (n int) {
	for _, s := range rs {
		n += s.Count
	}
	return n
}

func (rs ranks) contains(rank int) bool {
	i := rs.at(rank)
	return i < len(rs) && rs[i].First <= rank
}

// containAll reports whether all of another set are in this one.
func (rs ranks) containAll(others ranks) bool {
	return !slices.ContainsFunc(others, func(s span) bool {
		i := rs.at(s.First)
		return i == len(rs) || rs[i].First > s.First || rs[i].end() < s.end()
	})
}

// after is the first rank from one on that is not in the set.
func (rs ranks) after(rank int) int {
	for i := rs.at(rank); i < len(rs) && rs[i].First <= rank; i++ {
		rank = rs[i].end()
	}
	return rank
}
