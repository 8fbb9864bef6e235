package cast

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/actor"
)

// Aggregator folds answers of type R into an Acc. All aggregators are built in: every proc knows
// them and gets their parameters.
type Aggregator[R, Acc any] struct {
	name   string
	result func(acc any) (Acc, error) // acc is nil when there was no answer
}

// Name is the aggregator's name on the wire, such as top(3).
func (g Aggregator[R, Acc]) Name() string { return g.name }

// Err reports invalid parameters, and answers of a type that it cannot fold.
func (g Aggregator[R, Acc]) Err() error {
	if g.result == nil {
		return errors.New("want an aggregator made by this package, got the zero Aggregator")
	}
	b, err := g.builtin()
	if err != nil {
		return err
	}
	return b.accepts(reflect.TypeFor[R]())
}

// builtin is the reducer for the name in the procs on the way.
func (g Aggregator[R, Acc]) builtin() (builtin, error) { return parseBuiltin(g.name, openAs[R]) }

// foldAll folds answers, in order.
func (g Aggregator[R, Acc]) foldAll(values iter.Seq2[actor.Answer, bool]) (Acc, error) {
	b, err := g.builtin()
	if err != nil {
		return *new(Acc), err
	}
	acc, err := b.foldAll(values)
	if err != nil {
		return *new(Acc), err
	}
	return g.result(acc)
}

// Count counts the ranks that answered.
func Count[R any]() Aggregator[R, int] {
	return Aggregator[R, int]{name: kindCount + "()", result: func(acc any) (int, error) {
		n, _ := acc.(int)
		return n, nil
	}}
}

// Collect returns every answer, in rank order, without places for missing ranks; Gather has these.
func Collect[R any]() Aggregator[R, []R] {
	return Aggregator[R, []R]{name: kindCollect + "()", result: items[R]}
}

// TopK is the k largest answers, the largest first; of equal ones those of lower ranks. Texts are
// compared byte by byte; a NaN is smaller than every number.
func TopK[R cmp.Ordered](k int) Aggregator[R, []R] { return topOrBottom[R](kindTop, k) }

// BottomK is the k smallest answers, the smallest first; of equal ones those of lower ranks. They
// are compared as TopK does.
func BottomK[R cmp.Ordered](k int) Aggregator[R, []R] { return topOrBottom[R](kindBottom, k) }

func topOrBottom[R cmp.Ordered](word string, k int) Aggregator[R, []R] {
	return Aggregator[R, []R]{name: fmt.Sprintf("%s(%d)", word, k), result: items[R]}
}

// items reads a list.
func items[R any](acc any) ([]R, error) {
	list, _ := acc.([]item)
	out := make([]R, len(list))
	for i, item := range list {
		var err error
		out[i], err = actor.DecodeAnswer[R](item.answer())
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Histogram counts the answers between ascending bounds. The first count has the answers below the
// first bound. Each next one has those from a bound up to below the next, and the last those from
// the last bound on. A NaN is below all.
func Histogram[R actor.Number](bounds ...R) Aggregator[R, []int] {
	g := Aggregator[R, []int]{result: func(acc any) ([]int, error) {
		counts, ok := acc.([]int)
		if !ok {
			counts = make([]int, len(bounds)+1)
		}
		return counts, nil
	}}
	texts := make([]string, min(len(bounds), maxBounds+1)) // one too many is enough to be refused
	for i := range texts {
		texts[i] = number(reflect.ValueOf(bounds[i]))
	}
	g.name = kindHistogram + "(" + strings.Join(texts, ",") + ")"
	return g
}

// number formats a number as text that parses back to the same number.
func number(v reflect.Value) string {
	if v.CanInt() {
		return strconv.FormatInt(v.Int(), 10)
	}
	if v.CanUint() {
		return strconv.FormatUint(v.Uint(), 10)
	}
	return strconv.FormatFloat(v.Float(), 'g', -1, 64)
}

// CountBy counts equal answers: how many ranks gave each.
func CountBy[R comparable]() Aggregator[R, map[R]int] {
	return Aggregator[R, map[R]int]{name: kindCountBy + "()", result: func(acc any) (map[R]int, error) {
		counts, _ := acc.([]valueCount)
		out := make(map[R]int, len(counts))
		for _, t := range counts {
			answer, err := actor.DecodeAnswer[R](actor.EncodedAnswer(t.Answer))
			if err != nil {
				return nil, err
			}
			out[answer] += t.Count
		}
		return out, nil
	}}
}
