package builtin

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/castnet-io/castnet/internal/wire"
)

// toJSON writes a message as JSON. What JSON cannot say is an error: encoding/json would make text of bytes.
func toJSON(v any) ([]byte, error) {
	v, err := travelled(v)
	if err != nil {
		return nil, err
	}
	if what := unsayable(v); what != "" {
		return nil, fmt.Errorf("the message has no JSON form: there is %s in it", what)
	}
	return wire.JSON.Encode(v)
}

// travelled is a value as other procs read it. One of this process may be of any Go type, and becomes what
// it would have become on the way.
func travelled(v any) (out any, err error) {
	raw, err := wire.Marshal(v)
	if err == nil {
		err = wire.Unmarshal(raw, &out)
	}
	return out, err
}

// unsayable names what JSON has no form for; "" when there is nothing such.
func unsayable(v any) string {
	switch v := v.(type) {
	case nil, bool, int64, string:
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "the number " + strconv.FormatFloat(v, 'g', -1, 64)
		}
	case []any:
		for _, x := range v {
			if what := unsayable(x); what != "" {
				return what
			}
		}
	case map[string]any:
		for _, x := range v {
			if what := unsayable(x); what != "" {
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

// fromJSON reads one value, as other procs would.
func fromJSON(data []byte) (any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("it is empty: want JSON, null for nothing")
	}
	v, err := wire.JSONValue(data)
	if err != nil {
		return nil, fmt.Errorf("want JSON: %w", err)
	}
	return travelled(v)
}
