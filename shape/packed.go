package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unsafe"
)

// Packed is a ValueMesh as it travels: plain fields for any encoder. A message that crosses
// processes holds a Packed where the program holds a ValueMesh. Without runs there is a value for
// each rank; with runs, a value for each that is distinct.
type Packed[T any] struct {
	Region Region      `cbor:"1,keyasint" json:"region"`
	Values []T         `cbor:"2,keyasint,omitempty" json:"values,omitempty"`
	Runs   []PackedRun `cbor:"3,keyasint,omitempty" json:"runs,omitempty"`
}

// PackedRun gives a value to the ranks from the end of the run before, or 0, up to before End.
type PackedRun struct {
	End   uint64 `cbor:"1,keyasint" json:"end"`
	Value uint32 `cbor:"2,keyasint" json:"value"` // its place in Values
}

// Pack is the mesh in its smaller form, with fields to encode. It may share the mesh's values:
// read them only.
func (m ValueMesh[T]) Pack() Packed[T] {
	m = m.Compress()
	p := Packed[T]{Region: m.region, Values: m.dense}
	if len(m.runs) > 0 {
		p.Values = m.table
	}
	for _, r := range m.runs {
		p.Runs = append(p.Runs, PackedRun{uint64(r.end), r.value})
	}
	return p
}

// Mesh validates the fields and returns their mesh. It takes no more memory than its input. The
// zero Packed is the zero mesh.
func (p Packed[T]) Mesh() (ValueMesh[T], error) {
	if len(p.Values) == 0 && len(p.Runs) == 0 && p.Region.Equal(Region{}) {
		return ValueMesh[T]{}, nil
	}
	if len(p.Runs) == 0 || p.Region.err != nil {
		return NewValueMesh(p.Region, p.Values)
	}
	n := p.Region.NumRanks()
	pack, end := newPacker[T](), uint64(0)
	for _, r := range p.Runs {
		want := ""
		if r.End <= end || r.End > uint64(n) {
			want = fmt.Sprintf("an end from %d to %d, in %s", end+1, n, p.Region)
		} else if int64(r.Value) >= int64(len(p.Values)) {
			want = fmt.Sprintf("one of %d values", len(p.Values))
		}
		if want != "" {
			return ValueMesh[T]{}, &Error{What: "packed run",
				Input: fmt.Sprintf("end %d, value %d", r.End, r.Value), Want: want}
		}
		end = r.End
		pack.fillTo(int(end), p.Values[r.Value])
	}
	if end != uint64(n) {
		return ValueMesh[T]{}, &Error{What: "end of the packed runs", Input: strconv.FormatUint(end, 10),
			Want: fmt.Sprintf("%d, the ranks of %s", n, p.Region)}
	}
	return pack.build(p.Region), nil
}

// MarshalJSON writes the mesh as a Packed.
func (m ValueMesh[T]) MarshalJSON() ([]byte, error) { return json.Marshal(m.Pack()) }

// UnmarshalJSON reads a Packed. It may be a peer's: its lists take at most 48 bytes for each of
// theirs, and 512 KiB.
func (m *ValueMesh[T]) UnmarshalJSON(data []byte) error {
	var came struct {
		Region Region          `json:"region"`
		Values json.RawMessage `json:"values"`
		Runs   json.RawMessage `json:"runs"`
	}
	p, err := Packed[T]{}, json.Unmarshal(data, &came)
	if err == nil {
		p.Region = came.Region
		p.Values, err = readList[T]("values", came.Values)
	}
	if err == nil {
		p.Runs, err = readList[PackedRun]("runs", came.Runs)
	}
	if err != nil {
		return fmt.Errorf("values of a mesh: %w", err)
	}
	mesh, err := p.Mesh()
	*m = mesh
	return err
}

// Bounds of a list: bytes for each byte of its text, and bytes on top.
const (
	listFactor = 48
	listSlack  = 512 << 10
)

// readList reads a list up to the first that does not belong there: each error that json.Unmarshal
// goes past costs memory. It counts before it takes room.
func readList[E any](what string, text json.RawMessage) ([]E, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return nil, &Error{What: what, Input: string(text), Want: "a JSON array"}
	}
	n, most := countElements(text), listFactor*len(text)+listSlack
	if n > most/max(1, int(unsafe.Sizeof(*new(E)))) {
		return nil, &Error{What: what, Input: fmt.Sprintf("%d in %d bytes", n, len(text)),
			Want: fmt.Sprintf("at most %d bytes in memory", most)}
	}
	out := make([]E, 0, n)
	for dec.More() {
		out = out[:len(out)+1]
		if err := dec.Decode(&out[len(out)-1]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// countElements is the largest possible number of values in a JSON array: one more than it has
// commas of its own.
func countElements(text []byte) int {
	n, depth, quoted := 1, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 1:
			n++
		}
	}
	return n
}

// MarshalText is the JSON text. Encoders that know texts only, as castnet's CBOR does, so keep a
// mesh whole; a Packed is shorter there.
func (m ValueMesh[T]) MarshalText() ([]byte, error) { return m.MarshalJSON() }

// UnmarshalText reads the JSON text.
func (m *ValueMesh[T]) UnmarshalText(text []byte) error { return m.UnmarshalJSON(text) }
