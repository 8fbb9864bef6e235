package target

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
)

func TestParseValue_yieldsIntegersForWholeNumbers(t *testing.T) {
	for text, want := range map[string]any{
		"":                      nil,
		"null":                  nil,
		"5":                     int64(5),
		"-5":                    int64(-5),
		"5.0":                   5.0,
		"1e3":                   1000.0,
		"9223372036854775807":   int64(9223372036854775807),
		"18446744073709551615":  uint64(18446744073709551615),
		`"5"`:                   "5",
		`[1,[2.5]]`:             []any{int64(1), []any{2.5}},
		`{"a":{"b":3},"c":"d"}`: map[string]any{"a": map[string]any{"b": int64(3)}, "c": "d"},
		" true ":                true,
	} {
		got, err := ParseValue("message", text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseValue_namesInvalidJSON(t *testing.T) {
	for _, text := range []string{"{", "hello", "1 2", "18446744073709551616", "[1e999]",
		`{"a":99999999999999999999}`, "01", "nul"} {
		_, err := ParseValue("message", text)
		require.ErrorContains(t, err, "message ", text)
		require.ErrorContains(t, err, "want JSON")
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
}

func FuzzParseValue_roundTrips(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,null]}`, "-0", "1e308", `"\ud800"`, "[[[]]]", "{}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseValue("message", text)
		if err != nil || strings.TrimSpace(text) == "" {
			return
		}
		require.True(t, json.Valid([]byte(text)))
		raw, err := EncodeValue(v)
		require.NoError(t, err)
		again, err := ParseValue("message", string(raw))
		require.NoError(t, err, "%s", raw)
		raw2, err := EncodeValue(again)
		require.NoError(t, err)
		require.Equal(t, string(raw), string(raw2))
	})
}
