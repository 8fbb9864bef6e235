package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSONValue decodes one JSON text into values that Marshal writes for actors: null, booleans,
// texts, []any and map[string]any. Numbers without a point and an exponent become int64, or uint64
// if they are larger; others become float64. CBOR tells the two apart.
func JSONValue(data []byte) (any, error) {
	var v any
	if !utf8.Valid(data) {
		return nil, errors.New("the text is not UTF-8")
	}
	if _, err := JSON.affords(data, JSON.planOf(data, &v), 1, limitOf(data)); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more data after the first value")
	}
	return convertNumbers(v)
}

// convertNumbers replaces every json.Number of a decoded value.
func convertNumbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		return parseNumber(v.String())
	case []any:
		for i := range v {
			v[i], err = convertNumbers(v[i])
			if err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			v[k], err = convertNumbers(v[k])
			if err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func parseNumber(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f, nil
		}
	} else if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	} else if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	return nil, fmt.Errorf("the number %.40s does not fit into 64 bits", text)
}
