package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

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

// fromJSON reads one value. Whole numbers become integers, for CBOR tells them from others.
func fromJSON(data []byte) (any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("it is empty: want JSON, null for nothing")
	}
	if !utf8.Valid(data) {
		return nil, errors.New("want JSON: it is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("want JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one JSON value: there is more behind the first")
	}
	if err := withNumbers(&v); err != nil {
		return nil, err
	}
	return travelled(v)
}

// withNumbers replaces every json.Number of a decoded value.
func withNumbers(v *any) (err error) {
	switch x := (*v).(type) {
	case json.Number:
		*v, err = number(x.String())
	case []any:
		for i := range x {
			if err = withNumbers(&x[i]); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, y := range x {
			if err = withNumbers(&y); err != nil {
				return err
			}
			x[k] = y
		}
	}
	return err
}

func number(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f, nil
		}
	} else if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	return nil, fmt.Errorf("the number %.40s does not fit in 64 bits", text)
}
