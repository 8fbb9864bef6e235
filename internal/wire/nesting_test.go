package wire

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// node leads to values of its own type in every possible way.
type node struct {
	Next  *node            `json:"next"`
	Kids  []node           `json:"kids"`
	Named map[string]*node `json:"named"`
	Any   any              `json:"any"`

	up   *node // is not encoded
	Down *node `cbor:"-" json:"-"`
}

// named encodes itself as a text, and holds itself.
type named struct{ Self *named }

func (n *named) MarshalText() ([]byte, error) { return []byte("a name"), nil }

type flat struct {
	A [4]int
	B map[string][]time.Time
	C *struct{ D []*named }
	E []byte
}

func TestMarshal_refusesCyclicValues_WIRE9(t *testing.T) {
	next, kids, byName, within := &node{}, &node{Kids: make([]node, 1)},
		&node{Named: map[string]*node{}}, &node{}
	next.Next = next
	kids.Kids[0].Kids = kids.Kids
	byName.Named["self"] = byName
	within.Any = []any{within}
	list := []any{nil}
	list[0] = list
	var pointer any
	pointer = &pointer
	for _, v := range []any{next, *next, kids, byName, within, list, pointer, []*node{next},
		struct{ V any }{list}} {
		for _, f := range []Format{CBOR, JSON} {
			_, err := f.Encode(v)
			require.ErrorIs(t, err, errTooDeep, "%T", v)
		}
	}
}

func TestMarshal_ignoresCyclesInUnencodedFields_WIRE9(t *testing.T) {
	n := &node{Next: &node{}}
	n.up, n.Next.up, n.Down = n, n, n
	self := &named{}
	self.Self = self
	for _, v := range []any{n, self, struct{ V any }{self}, []*named{self, self}} {
		for _, f := range []Format{CBOR, JSON} {
			_, err := f.Encode(v)
			require.NoError(t, err, "%T", v)
		}
	}
}

func TestMarshal_refusesValuesTooDeepToDecode_WIRE9(t *testing.T) {
	nested := func(levels int) (v any) {
		for range levels {
			v = []any{v}
		}
		return v
	}
	b, err := Marshal(nested(maxNested))
	require.NoError(t, err)
	var back any
	require.NoError(t, Unmarshal(b, &back))
	_, err = Marshal(nested(maxNested + 1))
	require.ErrorContains(t, err, "exceeded max nested level 32")
	_, err = Marshal(nested(maxDepth + 1))
	require.ErrorIs(t, err, errTooDeep)
	long := &node{}
	for range 1_000_000 {
		long = &node{Next: long}
	}
	_, err = JSON.Encode(long)
	require.ErrorIs(t, err, errTooDeep)
}

func TestMarshal_refusesValuesThatExpandTooMuch_WIRE9(t *testing.T) {
	var v any = 1
	for range 30 {
		v = []any{v, v}
	}
	for _, f := range []Format{CBOR, JSON} {
		require.ErrorIs(t, (&nestingCheck{format: f, items: 1000}).visit(reflect.ValueOf(v), 0), errTooMany)
		require.ErrorIs(t, (&nestingCheck{format: f, items: 1000}).visitAny(v, 0), errTooMany)
	}
}

func TestMarshal_skipsCycleChecksForAcyclicTypes_WIRE9(t *testing.T) {
	for _, v := range []any{1, "", flat{}, &flat{}, []flat{}, map[string]flat{}, [][][]int{}, time.Now(),
		&named{}, struct{}{}} {
		for _, f := range []Format{CBOR, JSON} {
			require.False(t, f.isRecursive(reflect.TypeOf(v)), "%T", v)
		}
	}
}

func TestPanicText_doesNotPrintCyclicValues(t *testing.T) {
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	for want, p := range map[string]any{
		"a value of type map[string]interface {}": cyclic, "text": "text", "7": 7,
		"an error": errors.New("an error"), "1s": time.Second,
	} {
		require.Equal(t, want, PanicText(p))
	}
}
