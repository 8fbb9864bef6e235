package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
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
	return Packed[T]{m.layout.region, m.values, m.layout.packedRuns()}
}

func (l *layout) packedRuns() (all []PackedRun) {
	for _, r := range l.runs {
		all = append(all, PackedRun{uint64(r.end), r.value})
	}
	return all
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
	packed, err := packRuns(p.Region, p.Runs, comparerOf(p.Values))
	if err != nil {
		return ValueMesh[T]{}, err
	}
	return pick(p.Values, packed), nil
}

// packRuns validates runs and packs them.
func packRuns(region Region, runs []PackedRun, c comparer) (packed, error) {
	n := region.NumRanks()
	pack, end := newPacker(c), uint64(0)
	for _, r := range runs {
		want := ""
		if r.End <= end || r.End > uint64(n) {
			want = fmt.Sprintf("an end from %d to %d, in %s", end+1, n, region)
		} else if int64(r.Value) >= int64(c.count) {
			want = fmt.Sprintf("one of %d values", c.count)
		}
		if want != "" {
			return packed{}, &Error{What: "packed run",
				Input: fmt.Sprintf("end %d, value %d", r.End, r.Value), Want: want}
		}
		end = r.End
		pack.fillTo(int(end), int(r.Value))
	}
	if end != uint64(n) {
		return packed{}, &Error{What: "end of the packed runs", Input: strconv.FormatUint(end, 10),
			Want: fmt.Sprintf("%d, the ranks of %s", n, region)}
	}
	return pack.build(region), nil
}

// MarshalJSON writes the mesh as a Packed.
func (m ValueMesh[T]) MarshalJSON() ([]byte, error) { return json.Marshal(m.Pack()) }

// UnmarshalJSON reads a Packed. It may be a peer's: its lists take at most 48 bytes for each of
// theirs, and 512 KiB.
func (m *ValueMesh[T]) UnmarshalJSON(data []byte) error {
	var p Packed[T]
	err := readPacked(data, &p.Region, &p.Values, &p.Runs)
	if err != nil {
		return fmt.Errorf("values of a mesh: %w", err)
	}
	*m, err = p.Mesh()
	return err
}

// readPacked reads the fields of a Packed. values points to a slice.
func readPacked(data []byte, region *Region, values any, runs *[]PackedRun) error {
	var came struct {
		Region Region          `json:"region"`
		Values json.RawMessage `json:"values"`
		Runs   json.RawMessage `json:"runs"`
	}
	if err := json.Unmarshal(data, &came); err != nil {
		return err
	}
	*region = came.Region
	if err := readList("values", came.Values, values); err != nil {
		return err
	}
	return readList("runs", came.Runs, runs)
}

// Bounds of a list: bytes for each byte of its text, and bytes on top.
const (
	listFactor = 48
	listSlack  = 512 << 10
)

// readList reads a list into the slice that to points to, up to the first element that does not
// belong there: each error that json.Unmarshal goes past costs memory. It counts before it takes
// room.
func readList(what string, text json.RawMessage, to any) error {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return &Error{What: what, Input: string(text), Want: "a JSON array"}
	}
	list := reflect.ValueOf(to).Elem()
	n, most := countElements(text), listFactor*len(text)+listSlack
	if n > most/max(1, int(list.Type().Elem().Size())) {
		return &Error{What: what, Input: fmt.Sprintf("%d in %d bytes", n, len(text)),
			Want: fmt.Sprintf("at most %d bytes in memory", most)}
	}
	list.Set(reflect.MakeSlice(list.Type(), 0, n))
	for i := 0; dec.More(); i++ {
		list.SetLen(i + 1)
		if err := dec.Decode(list.Index(i).Addr().Interface()); err != nil {
			return err
		}
	}
	return nil
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
