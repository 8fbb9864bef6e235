package wire

import (
	"bytes"
	"fmt"
	"math/bits"
	"reflect"
	"sync"
)

// What a body may take (WIRE-6).
const (
	memoryFactor = 64      // for each of its bytes
	memoryMore   = 1 << 20 // and in all
)

// TooLargeError is a body that is refused because it would take more memory than its size allows.
type TooLargeError struct {
	Type  string // of the value
	Bytes int    // of the body
	Limit int    // of memory
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: a body of %d bytes would take more than %d bytes of memory, which are %d for each and %d",
		e.Type, e.Bytes, e.Limit, memoryFactor, memoryMore)
}

// plans are what types take, by reading: a cache of what planner finds.
var plans [2]sync.Map // of Format: reflect.Type -> *plan

// limitOf is what reading data may take.
func limitOf(data []byte) int { return memoryFactor*len(data) + memoryMore }

// planOf is the plan to read data into what v points to; nil when there is nothing to plan for, or the decoder will
// refuse v.
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

// planTo is the plan of what pointers of a type point to.
func (f Format) planTo(t reflect.Type) *plan {
	if p, ok := plans[f].Load(t); ok {
		return p.(*plan)
	}
	p, _ := plans[f].LoadOrStore(t, newPlan(f, t.Elem()))
	return p.(*plan)
}

// affords says that data may be read by a plan so many times within a limit, and else why not. It looks at data only
// when not every body of its size may be; then it also says whether there is an unknown field in it, and one
// reading is enough.
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

// single says that there is nothing within the one item of data, which then takes little, or that it is malformed.
func (f Format) single(data []byte) bool {
	if f == JSON {
		data = bytes.TrimLeft(data, " \t\r\n")
		return len(data) == 0 || data[0] != '{' && data[0] != '['
	}
	return len(data) == 0 || data[0]>>5 != majorArray && data[0]>>5 != majorMap
}

// allocated is at least what n bytes take from the heap.
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

// grown is at least what a slice takes to which n elements are appended, with all that it outgrows.
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
		if taken <= 256 { // what is rounded up is used
			room = taken / size
		}
	}
	return all + all/4 // later, too
}

// What Go's maps are made of: groups of slots in tables, all behind a head.
const (
	mapHead   = 48
	mapSlots  = 8
	tableHead = 64
	tableRoom = 1024
)

// mapMade is at least what a map takes that is made for n pairs in slots of so many bytes, and filled.
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

// mapGrown is at least what a map takes that is filled with n pairs and was not made for them.
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
