package actor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// The built-in accumulators. Castnet hands a handler no message twice (DEL-3), but a sender that
// retries sends another message. Each accumulator says whether such a duplicate counts twice.
// Relays may reduce all but Count.

// maxSources limits the sources of a per-source state; updates of more are refused.
const maxSources = 65_536

// Number is the constraint of Sum.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Maybe is an optional value; OK reports whether it is set.
type Maybe[T any] struct {
	Value T    `cbor:"1,keyasint"`
	OK    bool `cbor:"2,keyasint"`
}

// Join accumulates in a join-semilattice: join must be associative, commutative and idempotent,
// with bottom as its neutral element. Updates may then come in any order, in any grouping and more
// than once.
func Join[T any](name string, bottom T, join func(a, b T) (T, error)) Accumulator[T, T] {
	return NewAccumulator(name, bottom, join).ReducedBy(NewReducer(name, join))
}

// Sum adds numbers. Integers wrap around as Go's do. It is not idempotent: duplicates count twice.
// GCounter and PNCounter are sums that survive duplicates.
func Sum[T Number]() Accumulator[T, T] {
	add := func(a, b T) (T, error) { return a + b, nil }
	return NewAccumulator("sum", T(0), add).ReducedBy(NewReducer("sum", add))
}

// Min keeps the smallest of all updates there ever were. Idempotent.
func Min[T cmp.Ordered]() Accumulator[Maybe[T], T] {
	return newMinMax("min", func(a, b T) T { return min(a, b) })
}

// Max keeps the largest of all updates there ever were. Idempotent.
func Max[T cmp.Ordered]() Accumulator[Maybe[T], T] {
	return newMinMax("max", func(a, b T) T { return max(a, b) })
}

func newMinMax[T cmp.Ordered](name string, pick func(a, b T) T) Accumulator[Maybe[T], T] {
	return NewAccumulator(name, Maybe[T]{}, func(best Maybe[T], v T) (Maybe[T], error) {
		if best.OK {
			v = pick(best.Value, v)
		}
		return Maybe[T]{v, true}, nil
	}).ReducedBy(NewReducer(name, func(a, b T) (T, error) { return pick(a, b), nil }))
}

// Count counts updates without content. It is not idempotent: duplicates count twice. It has no
// reducer, because one None in place of two would lose a count. Relays can reduce a Sum of ones
// instead.
func Count() Accumulator[uint64, None] {
	return NewAccumulator("count", 0, func(n uint64, _ None) (uint64, error) { return n + 1, nil })
}

// Barrier is for ports with a Limit: its state is empty and arrives with the last update. The state
// is idempotent; the Limit is not, so duplicates count twice towards it.
func Barrier() Accumulator[None, None] {
	return Join("barrier", None{}, func(None, None) (None, error) { return None{}, nil })
}

// Mark is the latest value of one source, at the source's logical time. The source increases the
// time with each mark.
type Mark[V cmp.Ordered] struct {
	Value V      `cbor:"1,keyasint"`
	Time  uint64 `cbor:"2,keyasint"`
}

// Marks maps sources to their latest marks. A source sends Marks with its own mark only.
type Marks[K comparable, V cmp.Ordered] map[K]Mark[V]

// Progress is the state of a Watermark.
type Progress[K comparable, V cmp.Ordered] struct {
	Marks Marks[K, V] `cbor:"1,keyasint"`
	Low   Maybe[V]    `cbor:"2,keyasint"` // the smallest value in Marks, once there are enough
}

// Watermark keeps the latest value of each source and the smallest of these values. The latest is
// by logical time, so updates may arrive in any order. Of two values at one time the smaller
// counts. Values may go down.
//
// The watermark exists once all required sources have sent a mark. Other sources count from their
// first mark. It is idempotent. It holds up to 65,536 sources.
func Watermark[K comparable, V cmp.Ordered](required ...K) Accumulator[Progress[K, V], Marks[K, V]] {
	required = slices.Clone(required)
	return watermark(func(m Marks[K, V]) bool {
		return !slices.ContainsFunc(required, func(k K) bool { _, ok := m[k]; return !ok })
	})
}

// WatermarkOf is a Watermark that exists once any n sources have sent a mark. If n is less than
// one, the verb that opens the port returns an error.
func WatermarkOf[K comparable, V cmp.Ordered](n int) Accumulator[Progress[K, V], Marks[K, V]] {
	a := watermark(func(m Marks[K, V]) bool { return len(m) >= n })
	if n < 1 {
		a.err = fmt.Errorf("want 1 source or more, got %d", n)
	}
	return a
}

func watermark[K comparable, V cmp.Ordered](
	enough func(Marks[K, V]) bool,
) Accumulator[Progress[K, V], Marks[K, V]] {
	join := func(a, b Marks[K, V]) (Marks[K, V], error) { return mergeMaps(a, b, Mark[V].supersedes) }
	return NewAccumulator("watermark", Progress[K, V]{},
		func(p Progress[K, V], u Marks[K, V]) (Progress[K, V], error) {
			m, err := join(p.Marks, u)
			if err != nil || !enough(m) {
				return Progress[K, V]{Marks: m}, err
			}
			return Progress[K, V]{m, m.low()}, nil
		}).ReducedBy(NewReducer("watermark", join))
}

func (m Marks[K, V]) low() Maybe[V] {
	var low Maybe[V]
	for _, mark := range m {
		if !low.OK || cmp.Less(mark.Value, low.Value) {
			low = Maybe[V]{mark.Value, true}
		}
	}
	return low
}

// supersedes reports whether a mark counts and the other of the same source does not.
func (m Mark[V]) supersedes(other Mark[V]) bool {
	return cmp.Or(cmp.Compare(m.Time, other.Time), cmp.Compare(other.Value, m.Value)) > 0
}

// Counts maps sources to their totals. A source sends Counts with its own total only, not the
// increment.
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
	return mergeMaps(c, other, func(a, b uint64) bool { return a > b })
}

// GCounter is a counter that only grows, kept per source: the larger total of a source counts. It
// is idempotent. It holds up to 65,536 sources.
func GCounter[K comparable]() Accumulator[Counts[K], Counts[K]] {
	return Join("g-counter", nil, Counts[K].join)
}

// PNCounts holds the totals added and the totals subtracted.
type PNCounts[K comparable] struct {
	Up   Counts[K] `cbor:"1,keyasint"`
	Down Counts[K] `cbor:"2,keyasint"`
}

// Total is the sum added less the sum subtracted. It wraps around as Go's integers do.
func (c PNCounts[K]) Total() int64 { return int64(c.Up.Total() - c.Down.Total()) }

// PNCounter is a counter that goes up and down, kept per source as two growing totals. It is
// idempotent. It holds up to 65,536 sources.
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

// mergeMaps merges two maps. For a key in both, the value preferred by over wins.
func mergeMaps[M ~map[K]V, K comparable, V any](a, b M, over func(V, V) bool) (M, error) {
	out := make(M, max(len(a), len(b)))
	maps.Copy(out, a)
	for k, v := range b {
		if old, ok := out[k]; !ok || over(v, old) {
			out[k] = v
		}
	}
	if len(out) > maxSources {
		return nil, fmt.Errorf("want at most %d sources, got %d", maxSources, len(out))
	}
	return out, nil
}
