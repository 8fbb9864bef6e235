package wire

import (
	"reflect"
)

// Measure is the measured memory of a body, and that of the worst body of its size.
func (f Format) Measure(data []byte, v any) (taken, worst int) {
	p := f.planTo(reflect.TypeOf(v))
	const limit = 1 << 50
	if f == CBOR {
		taken, _ = measureCBOR(data, p, limit)
	} else {
		taken = measureJSON(data, p, limit)
	}
	return taken, p.worst * len(data)
}

// Affords runs the check before data is read.
func (f Format) Affords(data []byte, v any) {
	_, _ = f.affords(data, f.planOf(data, v), 2, limitOf(data))
}

// Said is a message of castnet's own with all kinds of long fields.
type Said struct {
	Numbers []int             `cbor:"1,keyasint,omitempty"`
	Texts   []string          `cbor:"2,keyasint,omitempty"`
	Raw     [][]byte          `cbor:"3,keyasint,omitempty"`
	Errors  []*Error          `cbor:"4,keyasint,omitempty"`
	Sets    []Spans           `cbor:"5,keyasint,omitempty"`
	Table   map[int][]string  `cbor:"6,keyasint,omitempty"`
	Tables  []map[string]bool `cbor:"7,keyasint,omitempty"`
	Within  *Said             `cbor:"8,keyasint,omitempty"`
	Deep    [][][]int         `cbor:"9,keyasint,omitempty"`
	Truths  [][]bool          `cbor:"11,keyasint,omitempty"`
	Counts  map[string]int    `cbor:"10,keyasint,omitempty"`
}

// Spans are a list in a list.
type Spans []AckState

// Wide takes the largest memory that a body of one byte may.
type Wide struct{ A [8]uint64 }

// InBlocks is Marshal with blocks of a size.
func InBlocks(v any, size int) ([]byte, error) {
	data, err := codecs.enc.Marshal(v)
	if err != nil {
		return nil, err
	}
	return cutter{elements: size, pairs: size}.recut(data, CBOR.planTo(reflect.PointerTo(reflect.TypeOf(v))))
}

// Joined is the result of reading data in blocks of a size; nil when there are none.
func Joined(data []byte, v any, size int) ([]byte, error) {
	return cutter{elements: size, pairs: size, joins: true}.recut(data, CBOR.planTo(reflect.TypeOf(v)))
}

// Narrow returns the error for data with more than a number of elements.
func Narrow(data []byte, size int) error {
	return newDecModes(ownNested, size, size).lenient.Wellformed(data)
}

// IsOwn reports whether castnet itself sends the type of v.
func IsOwn(v any) bool { return CBOR.planTo(reflect.TypeOf(v)).own }
