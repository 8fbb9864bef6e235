package cast

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/actor"
)

// top keeps the first k answers, sorted; among equal ones, those of lower ranks. It folds decoded
// []item.
type top struct {
	name string
	read answerReader
	k    int
	sign int // 1: the smallest first, -1: the largest
}

func topOf(text, args string, read answerReader) (builtin, error) {
	k, err := strconv.Atoi(args)
	if err != nil || k < 1 || strconv.Itoa(k) != args {
		return builtin{}, fmt.Errorf("reducer %.200s: want how many to keep, 1 or more", text)
	}
	t := top{text, read, k, 1}
	if strings.HasPrefix(text, kindTop) {
		t.sign = -1
	}
	return builtin{untypedReducer{lift: t.lift, open: t.open, fold: t.fold}, t.accepts}, nil
}

func (t top) accepts(answer reflect.Type) error {
	if kind := answer.Kind(); isNumber(answer) || kind == reflect.String || kind == reflect.Interface {
		return nil
	}
	return typeMismatch(t.name, "numbers and text", answer)
}

func (t top) lift(a actor.Answer) (any, error) {
	v, err := t.value(a)
	return []item{{value: v}}, err
}

// value reads one answer.
func (t top) value(a actor.Answer) (any, error) {
	v, err := t.read(a)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, fmt.Errorf("reducer %s folds numbers and text, got nil", t.name)
	}
	return v, t.accepts(reflect.TypeOf(v))
}

// maxOneByteItems is how many items may be of one byte: each takes far more once it has been read
// (WIRE-6).
const maxOneByteItems = 4096

// open sorts again: a peer may send any order.
func (t top) open(a actor.Answer) (any, error) {
	items, err := actor.DecodeAnswer[[]item](a)
	if err != nil || len(items) == 0 {
		return items, err
	}
	size := 0
	for i := range items {
		size += len(items[i].raw)
	}
	if len(items) > t.k || len(items) > maxOneByteItems && size < 2*len(items) {
		return nil, fmt.Errorf("reducer %s: %d values in %d bytes", t.name, len(items), size)
	}
	for i := range items {
		v, err := t.value(items[i].answer())
		if err == nil && i > 0 {
			err = checkSameType(t.name, reflect.ValueOf(items[0].value), reflect.ValueOf(v))
		}
		if err != nil {
			return nil, err
		}
		items[i] = item{value: v}
	}
	slices.SortStableFunc(items, func(x, y item) int { return t.sign * compare(x.value, y.value) })
	return items, nil
}

func (t top) fold(acc, next any) (any, error) {
	a, b := acc.([]item), next.([]item)
	if len(a) > 0 && len(b) > 0 {
		if err := checkSameType(t.name, reflect.ValueOf(a[0].value), reflect.ValueOf(b[0].value)); err != nil {
			return nil, err
		}
	}
	out := make([]item, 0, min(t.k, len(a)+len(b)))
	for len(out) < cap(out) {
		if len(b) == 0 || len(a) > 0 && t.sign*compare(a[0].value, b[0].value) <= 0 {
			out = append(out, a[0])
			a = a[1:]
		} else {
			out = append(out, b[0])
			b = b[1:]
		}
	}
	return out, nil
}

// compare orders two values of one type that top accepts; a NaN comes before all numbers.
func compare(a, b any) int {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case x.CanInt():
		return cmp.Compare(x.Int(), y.Int())
	case x.CanUint():
		return cmp.Compare(x.Uint(), y.Uint())
	case x.CanFloat():
		return cmp.Compare(x.Float(), y.Float())
	}
	return cmp.Compare(x.String(), y.String())
}
