package wire

import (
	"bytes"
	"fmt"
	"math/bits"
	"reflect"
)

// The memory limit of a body (WIRE-6).
const (
	memoryFactor = 64      // for each of its bytes
	memoryMore   = 1 << 20 // and in all
)

// TooLargeError reports a body that would take more memory than its size allows.
type TooLargeError struct {
	Type  string // of the value
	Bytes int    // of the body
	Limit int    // of memory
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: a body of %d bytes needs more than %d bytes of memory, %d for each byte and %d",
		e.Type, e.Bytes, e.Limit, memoryFactor, memoryMore)
}

// limitOf is the memory limit for reading data.
func limitOf(data []byte) int { return memoryFactor*len(data) + memoryMore }

// planOf returns the plan for reading data into the target of v; nil if there is nothing to plan,
// or the decoder will refuse v.
func (f Format) planOf(data []byte, v any) *plan {
	if f.single(data) {
		return nil
	}
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return nil
	}
	return f.planTo(t)
}

// planTo returns the plan of the targets of a pointer type.
func (f Format) planTo(t reflect.Type) *plan {
	if p, ok := codecs.plans[f].Load(t); ok {
		return p.(*plan)
	}
	p, _ := codecs.plans[f].LoadOrStore(t, newPlan(f, t.Elem()))
	return p.(*plan)
}

// affords checks that data, read by a plan a number of times, stays within a limit. It measures the
// data only if some body of its size might not. Then it also reports unknown fields, so one reading
// suffices.
func (f Format) affords(data []byte, p *plan, times, limit int) (unknown bool, err error) {
	if p == nil {
		return false, nil
	}
	if !p.records {
		times = 1
	}
	if times*p.worst*len(data) <= limit {
		return false, nil
	}
	taken := 0
	if f == CBOR {
		taken, unknown = measureCBOR(data, p, limit)
	} else {
		taken = measureJSON(data, p, limit)
	}
	if taken > limit {
		return false, &TooLargeError{Type: p.name, Bytes: len(data), Limit: limit}
	}
	return unknown, nil
}

// single reports whether data is one item without content, or malformed. Such an item takes little
// memory.
func (f Format) single(data []byte) bool {
	if f == JSON {
		data = bytes.TrimLeft(data, " \t\r\n")
		return len(data) == 0 || data[0] != '{' && data[0] != '['
	}
	return len(data) == 0 || data[0]>>5 != majorArray && data[0]>>5 != majorMap
}

// allocated is a lower bound of the heap memory for n bytes.
func allocated(n int) int {
	switch {
	case n <= 8:
		return (n + 7) &^ 7
	case n <= 256:
		return (n + 15) &^ 15
	case n <= 512:
		return (n + 31) &^ 31
	case n <= 32<<10:
		return n + 8 + n/6
	}
	return (n + 8<<10 + 8) &^ (8<<10 - 1)
}

// grown is a lower bound of the memory of a slice after appending n elements, including all
// outgrown arrays.
func grown(n, size int) int {
	all := 0
	for room := 0; room < n && size > 0; {
		switch {
		case room == 0:
			room = 1
		case room < 256:
			room *= 2
		default:
			room += (room + 3*256) / 4
		}
		taken := allocated(room * size)
		all += taken
		if taken <= 256 { // small sizes are used up by rounding
			room = taken / size
		}
	}
	return all + all/4 // later, too
}

// The parts of Go's maps: groups of slots in tables, behind a head.
const (
	mapHead   = 48
	mapSlots  = 8
	tableHead = 64
	tableRoom = 1024
)

// mapMade is a lower bound of the memory of a map made for n pairs in slots of that size, and
// filled.
func mapMade(n, slot int) int {
	if n == 0 {
		return mapHead
	}
	if n <= mapSlots {
		return mapHead + allocated(8+mapSlots*slot)
	}
	room := n * 8 / 7
	tables := powerOf2((room + tableRoom - 1) / tableRoom)
	groups := powerOf2(room/tables) / mapSlots
	if groups*mapSlots*tables < room {
		groups *= 2
	}
	one := tableHead + allocated(groups*(8+mapSlots*slot))
	if tables > 1 { // some are filled before others, and grow
		one = 3*one + 2*8<<10
	}
	return mapHead + tables*one
}

// mapGrown is a lower bound of the memory of a map filled with n pairs without a size hint.
func mapGrown(n, slot int) int {
	all := mapMade(min(n, mapSlots), slot)
	if n <= mapSlots {
		return all
	}
	if n > tableRoom*7/8 {
		n += n / 8 // some tables are filled before others
	}
	for room := 2 * mapSlots; ; room *= 2 {
		tables := max(1, room/tableRoom)
		all += tables * (tableHead + allocated(room/tables/mapSlots*(8+mapSlots*slot)))
		if room*7/8 >= n {
			return all
		}
	}
}

func powerOf2(n int) int {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}
