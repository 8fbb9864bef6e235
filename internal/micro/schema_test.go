package micro

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type base struct {
	ID   uint16 `json:"id"`
	Name int    `json:"name"` // hidden by the outer one
}

type tree struct {
	Value    float64
	Children []*tree `json:"children,omitempty"`
}

type job struct {
	base
	*tree
	Name   string            `json:"name"`
	Data   []byte            `json:"data"`
	At     time.Time         `json:"at"`
	From   netip.Addr        `json:"from"`
	Raw    json.RawMessage   `json:"raw"`
	Tags   map[string]string `json:"tags"`
	Big    int64             `json:"big,string"`
	Any    any               `json:"any"`
	Secret string            `json:"-"`
	hidden int
}

func TestSchema_describesTheTypesEncoding_MIC4(t *testing.T) {
	for want, v := range map[string]any{
		`{"type":"boolean"}`:                                                    true,
		`{"type":"integer"}`:                                                    int64(1),
		`{"maximum":127,"minimum":-128,"type":"integer"}`:                       int8(1),
		`{"maximum":4294967295,"minimum":0,"type":"integer"}`:                   uint32(1),
		`{"minimum":0,"type":"integer"}`:                                        uint64(1),
		`{"type":"number"}`:                                                     1.5,
		`{"contentEncoding":"base64","type":["string","null"]}`:                 []byte{},
		`{"items":{"type":"string"},"type":["array","null"]}`:                   []string{},
		`{"items":{"type":"integer"},"maxItems":2,"minItems":2,"type":"array"}`: [2]int{},
		`{"additionalProperties":{"type":"integer"},"type":["object","null"]}`:  map[string]int{},
		`{"type":["integer","null"]}`:                                           new(int),
		`{"type":"object"}`:                                                     struct{}{},
		`{"title":"chan int"}`:                                                  make(chan int),
	} {
		require.JSONEq(t, want, Schema(reflect.TypeOf(v)), "%T", v)
	}
	require.Equal(t, `{}`, Schema(reflect.TypeFor[any]()))
	require.JSONEq(t, `{"type":"object","properties":{
		"id":{"type":"integer","minimum":0,"maximum":65535}, "name":{"type":"string"},
		"Value":{"type":"number"}, "children":{"type":["array","null"],"items":{"type":["object","null"],"properties":{
			"Value":{"type":"number"},"children":{"type":["array","null"],"items":{"title":"micro.tree"}}}}},
		"data":{"type":["string","null"],"contentEncoding":"base64"}, "at":{"type":"string","format":"date-time"},
		"from":{"type":"string"}, "raw":{"title":"json.RawMessage"},
		"tags":{"type":["object","null"],"additionalProperties":{"type":"string"}},
		"big":{"type":"string"}, "any":{}
	}}`, Schema(reflect.TypeFor[job]()))
	_ = job{hidden: 0}
}

type (
	wide   struct{ A1, A2, A3, A4, A5, A6, A7, A8 [2][2][2]deep }
	deep   struct{ B1, B2, B3, B4, B5, B6, B7, B8 deeper }
	deeper struct {
		C1, C2, C3, C4, C5, C6, C7, C8 map[string]struct{ Text string }
	}
)

func TestSchema_isBounded_MIC4(t *testing.T) {
	require.Equal(t, `{"title":"micro.wide"}`, Schema(reflect.TypeFor[wide]()))
	require.Less(t, strings.Count(Schema(reflect.TypeFor[deep]()), "type"), maxSchema)
}
