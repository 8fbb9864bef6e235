package builtin

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/castnet-io/castnet/internal/wire"
)

// toJSON encodes a message as JSON. It refuses bytes, because encoding/json would turn them into
// text.
func toJSON(v any) ([]byte, error) {
	v, err := asReceived(v)
	if err != nil {
		return nil, err
	}
	if what := notJSON(v); what != "" {
		return nil, fmt.Errorf("cannot encode the message as JSON: it contains %s", what)
	}
	return wire.JSON.Encode(v)
}

// asReceived returns a value in the form that other procs decode. A local value may have any Go
// type.
func asReceived(v any) (out any, err error) {
	raw, err := wire.Marshal(v)
	if err == nil {
		err = wire.Unmarshal(raw, &out)
	}
	return out, err
}

// notJSON names the part of a value without a JSON form, or returns "".
func notJSON(v any) string {
	switch v := v.(type) {
	case nil, bool, int64, string:
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "the number " + strconv.FormatFloat(v, 'g', -1, 64)
		}
	case []any:
		for _, x := range v {
			if what := notJSON(x); what != "" {
				return what
			}
		}
	case map[string]any:
		for _, x := range v {
			if what := notJSON(x); what != "" {
				return what
			}
		}
	case []byte:
		return fmt.Sprintf("a byte string of %d bytes", len(v))
	default:
		return fmt.Sprintf("a %T", v)
	}
	return ""
}

// fromJSON decodes one value into the form of other procs.
func fromJSON(data []byte) (any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("it is empty: want JSON, null for no value")
	}
	v, err := wire.JSONValue(data)
	if err != nil {
		return nil, fmt.Errorf("want JSON: %w", err)
	}
	return asReceived(v)
}
