package wire_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

func TestJSONValue_separatesIntegersFromFloats(t *testing.T) {
	for text, want := range map[string]any{
		"5": int64(5), "-5": int64(-5), "5.0": 5.0, "5e0": 5.0, "0": int64(0), " 7\n": int64(7),
		"9223372036854775807": int64(math.MaxInt64), "-9223372036854775808": int64(math.MinInt64),
		"9223372036854775808": uint64(1 << 63), "18446744073709551615": uint64(math.MaxUint64),
		"null": nil, "true": true, `"5"`: "5", `"\u00e9"`: "é",
		`[1,[2.5],{"n":3}]`: []any{int64(1), []any{2.5}, map[string]any{"n": int64(3)}},
		`{"a":1,"a":2}`:     map[string]any{"a": int64(2)},
	} {
		got, err := wire.JSONValue([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestJSONValue_reportsInvalidInput(t *testing.T) {
	for text, want := range map[string]string{
		"": "EOF", "{": "unexpected EOF", "five": "invalid character", "1 2": "more data after the first value",
		"1]": "more data after the first value", "\"\xff\"": "the text is not UTF-8", "01": "more data after",
		"18446744073709551616":               "the number 18446744073709551616 does not fit into 64 bits",
		"-9223372036854775809":               "does not fit into 64 bits",
		"[1e999]":                            "the number 1e999 does not fit into 64 bits",
		"[" + strings.Repeat("9", 500) + "]": "the number " + strings.Repeat("9", 40) + " does not fit",
	} {
		got, err := wire.JSONValue([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.Nil(t, got, text)
	}
}

func TestJSONValue_usesProportionalMemory_WIRE6(t *testing.T) {
	for _, item := range items[wire.JSON] {
		data := many(t, wire.JSON, 64<<10, item)
		requireBounded(t, data, bodyFactor, bodyMore, func() { _, _ = wire.JSONValue(data) })
	}
}
