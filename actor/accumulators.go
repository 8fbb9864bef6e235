package actor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// The built-in accumulators. Castnet hands a handler no message twice (DEL-4), but a sender that
// retries sends another message: each of them says whether the same update, sent twice, counts
// twice. All but Count may be reduced by relays.

// maxSources is how many sources a per-source state keeps; updates of more are refused.
const maxSources = 65_536

// Number is what Sum adds.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Known is a value that there may not be yet: OK says whether there is.
type Known[T any] struct {
	Value T    `cbor:"1,keyasint"`
	OK    bool `cbor:"2,keyasint"`
}

// Join accumulates in a join-semilattice: join must be associative, commutative and idempotent, and
// bottom its neutral element. Then updates may come in any order, in any grouping and more than
// once: duplicates change nothing.
func Join[T any](name string, bottom T, join func(a, b T) (T, error)) Accumulator[T, T] {
	return NewAccumulator(name, bottom, join).ReducedBy(NewReducer(name, join))
}

// Sum adds numbers. Integers wrap around as Go's do. Not idempotent: duplicates count twice; GCounter
// and PNCounter are the sums that survive them.
func Sum[T Number]() Accumulator[T, T] {
	add := func(a, b T) (T, error) { return a + b, nil }
	return NewAccumulator("sum", T(0), add).ReducedBy(NewReducer("sum", add))
}

// Min keeps the smallest of all updates there ever were. Idempotent.
func Min[T cmp.Ordered]() Accumulator[Known[T], T] {
	return extreme("min", func(a, b T) T { return min(a, b) })
}

// Max keeps the largest of all updates there ever were. Idempotent.
func Max[T cmp.Ordered]() Accumulator[Known[T], T] {
	return extreme("max", func(a, b T) T { return max(a, b) })
}

func extreme[T cmp.Ordered](name string, pick func(a, b T) T) Accumulator[Known[T], T] {
	return NewAccumulator(name, Known[T]{}, func(best Known[T], v T) (Known[T], error) {
		if best.OK {
			v = pick(best.Value, v)
		}
		return Known[T]{v, true}, nil
	}).ReducedBy(NewReducer(name, func(a, b T) (T, error) { return pick(a, b), nil }))
}

// Count counts updates that say nothing else. Not idempotent: duplicates count twice. It has no
// reducer, for one None in the place of two would be a lost one; what relays may reduce is a Sum of
// ones.
func Count() Accumulator[uint64, None] {
	return NewAccumulator("count", 0, func(n uint64, _ None) (uint64, error) { return n + 1, nil })
}

// Barrier is for ports with a Limit: its state says nothing, and comes when the last update has.
// The state is idempotent; the Limit is not, duplicates count twice towards it.
func Barrier() Accumulator[None, None] {
	return Join("barrier", None{}, func(None, None) (None, error) { return None{}, nil })
}

// Mark is what one source said last: a value at its logical time, which the source lets grow with
// each.
type Mark[V cmp.Ordered] struct {
	Value V      `cbor:"1,keyasint"`
	Time  uint64 `cbor:"2,keyasint"`
}

// Marks is what sources said last, by source. A source sends Marks with its own alone.
type Marks[K comparable, V cmp.Ordered] map[K]Mark[V]

// Progress is the state of a Watermark.
type Progress[K comparable, V cmp.Ordered] struct {
	Marks Marks[K, V] `cbor:"1,keyasint"`
	Low   Known[V]    `cbor:"2,keyasint"` // the smallest value in Marks, once there are enough
}

// Watermark keeps what each source said last and the smallest of these values: what all have
// reached. Last is by logical time, so it does not matter in which order updates arrive; of two
// values at one time the smaller counts. Values may go down. There is a watermark once all required
// sources have spoken; others count as soon as they do. Idempotent. Up to 65,536 sources.
func Watermark[K comparable, V cmp.Ordered](required ...K) Accumulator[Progress[K, V], Marks[K, V]] {
	required = slices.Clone(required)
	return watermark(func(m Marks[K, V]) bool {
		return !slices.ContainsFunc(required, func(k K) bool { _, ok := m[k]; return !ok })
	})
}

// WatermarkOf is a Watermark that there is once n sources have spoken, whichever these are. Less than
// one is an error of the verb that opens the port.
func WatermarkOf[K comparable, V cmp.Ordered](n int) Accumulator[Progress[K, V], Marks[K, V]] {
	a := watermark(func(m Marks[K, V]) bool { return len(m) >= n })
	if n < 1 {
		a.err = fmt.Errorf("want 1 source or more, got %d", n)
	}
	return a
}

func watermark[K comparable, V cmp.Ordered](enough func(Marks[K, V]) bool) Accumulator[Progress[K, V], Marks[K, V]] {
	join := func(a, b Marks[K, V]) (Marks[K, V], error) { return joined(a, b, Mark[V].over) }
	return NewAccumulator("watermark", Progress[K, V]{}, func(p Progress[K, V], u Marks[K, V]) (Progress[K, V], error) {
		m, err := join(p.Marks, u)
		if err != nil || !enough(m) {
			return Progress[K, V]{Marks: m}, err
		}
		return Progress[K, V]{m, m.low()}, nil
	}).ReducedBy(NewReducer("watermark", join))
}

func (m Marks[K, V]) low() Known[V] {
	var low Known[V]
	for _, mark := range m {
		if !low.OK || cmp.Less(mark.Value, low.Value) {
			low = Known[V]{mark.Value, true}
		}
	}
	return low
}

// over reports whether a mark counts and the other of the same source does not.
func (m Mark[V]) over(other Mark[V]) bool {
	return cmp.Or(cmp.Compare(m.Time, other.Time), cmp.Compare(other.Value, m.Value)) > 0
}

// Counts is how far each source has counted. A source sends Counts with its own total so far alone,
// not what has been added to it.
type Counts[K comparable] map[K]uint64

// Total is the sum over all sources. It wraps around as Go's integers do.
func (c Counts[K]) Total() uint64 {
	var n uint64
	for _, v := range c {
		n += v
	}
	return n
}

func (c Counts[K]) join(other Counts[K]) (Counts[K], error) {
	return joined(c, other, func(a, b uint64) bool { return a > b })
}

// GCounter is a counter that only grows, kept per source: the larger total of a source counts.
// Idempotent. Up to 65,536 sources.
func GCounter[K comparable]() Accumulator[Counts[K], Counts[K]] {
	return Join("g-counter", nil, Counts[K].join)
}

// PNCounts is a Counts of what was added and one of what was taken away.
type PNCounts[K comparable] struct {
	Up   Counts[K] `cbor:"1,keyasint"`
	Down Counts[K] `cbor:"2,keyasint"`
}

// Total is what was added less what was taken away. It wraps around as Go's integers do.
func (c PNCounts[K]) Total() int64 { return int64(c.Up.Total() - c.Down.Total()) }

// PNCounter is a counter that goes up and down, kept per source as two that only grow. Idempotent.
// Up to 65,536 sources.
func PNCounter[K comparable]() Accumulator[PNCounts[K], PNCounts[K]] {
	return Join("pn-counter", PNCounts[K]{}, func(a, b PNCounts[K]) (PNCounts[K], error) {
		up, err := a.Up.join(b.Up)
		if err != nil {
			return PNCounts[K]{}, err
		}
		down, err := a.Down.join(b.Down)
		return PNCounts[K]{up, down}, err
	})
}

// joined is a map with the keys of both and, where both have one, the value that is over the other.
func joined[M ~map[K]V, K comparable, V any](a, b M, over func(V, V) bool) (M, error) {
	out := make(M, max(len(a), len(b)))
	maps.Copy(out, a)
	for k, v := range b {
		if old, ok := out[k]; !ok || over(v, old) {
			out[k] = v
		}
	}
	if len(out) > maxSources {
		return nil, fmt.Errorf("more than %d sources", maxSources)
	}
	return out, nil
}
