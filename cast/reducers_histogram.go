package cast

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/actor"
)

// maxBounds limits the bounds of a histogram.
const maxBounds = 1024

// histogram counts numbers between bounds, into an []int one longer than the bounds. It keeps the
// bounds in each kind of number that can hold them all, and compares in the kind of the answer,
// because a float64 cannot hold every int64.
type histogram struct {
	name   string
	read   answerReader
	bins   int
	ints   []int64
	uints  []uint64
	floats []float64
}

func histogramOf(text, args string, read answerReader) (builtin, error) {
	texts := strings.Split(args, ",")
	h := histogram{name: text, read: read, bins: len(texts) + 1}
	if len(texts) > maxBounds {
		return builtin{}, fmt.Errorf("reducer %.40s…: %d bounds, want %d at most", text, len(texts), maxBounds)
	}
	h.ints = bounds(texts, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	h.uints = bounds(texts, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	h.floats = bounds(texts, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	if h.ints == nil && h.uints == nil && h.floats == nil {
		return builtin{},
			fmt.Errorf("reducer %.200s: want one bound or more, each larger than the one before", text)
	}
	return builtin{untypedReducer{lift: h.lift, open: h.open, fold: h.fold}, h.accepts}, nil
}

// bounds parses bounds; nil when one is not of that kind, or they do not ascend.
func bounds[T cmp.Ordered](texts []string, read func(string) (T, error)) []T {
	out := make([]T, len(texts))
	for i, s := range texts {
		var err error
		out[i], err = read(s)
		if err != nil || out[i] != out[i] || i > 0 && out[i] <= out[i-1] {
			return nil
		}
	}
	return out
}

func (h histogram) accepts(answer reflect.Type) error {
	zero := reflect.Zero(answer)
	if answer.Kind() == reflect.Interface || h.ints != nil && zero.CanInt() || h.uints != nil &&
		zero.CanUint() || h.floats != nil && zero.CanFloat() {
		return nil
	}
	return typeMismatch(h.name, "numbers of the bounds' kind", answer)
}

func (h histogram) lift(a actor.Answer) (any, error) {
	answer, err := h.read(a)
	if err != nil {
		return nil, err
	}
	v := reflect.ValueOf(answer)
	bin := 0
	if !v.IsValid() {
		return nil, fmt.Errorf("reducer %s folds numbers, got nil", h.name)
	}
	if err := h.accepts(v.Type()); err != nil {
		return nil, err
	}
	switch {
	case v.CanInt():
		bin = below(h.ints, v.Int())
	case v.CanUint():
		bin = below(h.uints, v.Uint())
	default:
		bin = below(h.floats, v.Float())
	}
	counts := make([]int, h.bins)
	counts[bin] = 1
	return counts, nil
}

// below counts the bounds that v has reached.
func below[T cmp.Ordered](bounds []T, v T) int {
	at, reached := slices.BinarySearch(bounds, v)
	if reached {
		at++
	}
	return at
}

func (h histogram) fold(acc, next any) (any, error) {
	out := slices.Clone(acc.([]int))
	for i, n := range next.([]int) {
		out[i] += n
	}
	return out, nil
}

func (h histogram) open(a actor.Answer) (any, error) {
	counts, err := actor.DecodeAnswer[[]int](a)
	if err == nil && (len(counts) != h.bins || slices.Min(counts) < 0) {
		err = fmt.Errorf("reducer %s: want %d counts, got %v", h.name, h.bins, counts)
	}
	return counts, err
}

// valueCount is an answer and how many there are of it.
type valueCount struct {
	Answer []byte `cbor:"1,keyasint"`
	Count  int    `cbor:"2,keyasint"`
}

// countByReducer counts equal answers into a sorted []valueCount. Answers are equal when their
// encodings are (WIRE-2).
var countByReducer = builtin{untypedReducer{
	lift: func(a actor.Answer) (any, error) {
		raw, err := a.Raw()
		return []valueCount{{raw, 1}}, err
	},
	open: func(a actor.Answer) (any, error) {
		counts, err := actor.DecodeAnswer[[]valueCount](a)
		slices.SortFunc(counts, func(a, b valueCount) int { return bytes.Compare(a.Answer, b.Answer) })
		return counts, err
	},
	fold: func(acc, next any) (any, error) { return mergeCounts(acc.([]valueCount), next.([]valueCount)), nil },
}, acceptAny}

// mergeCounts adds the counts of equal values.
func mergeCounts(a, b []valueCount) []valueCount {
	out := make([]valueCount, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := bytes.Compare(a[0].Answer, b[0].Answer); {
		case c < 0:
			out = append(out, a[0])
			a = a[1:]
		case c > 0:
			out = append(out, b[0])
			b = b[1:]
		default:
			out = append(out, valueCount{a[0].Answer, a[0].Count + b[0].Count})
			a = a[1:]
			b = b[1:]
		}
	}
	return append(append(out, a...), b...)
}
