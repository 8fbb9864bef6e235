package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/castnet-io/castnet/internal/wire"
)

// value is a message or an answer as CBOR, without decoding. The zero value is null.
type value struct{ raw []byte }

var null = []byte{0xf6}

// UnmarshalCBOR keeps the bytes.
func (v *value) UnmarshalCBOR(raw []byte) error {
	v.raw = bytes.Clone(raw)
	return nil
}

// MarshalCBOR gives them back.
func (v value) MarshalCBOR() ([]byte, error) {
	if v.raw == nil {
		return null, nil
	}
	return v.raw, nil
}

// MarshalJSON converts the value to JSON.
func (v value) MarshalJSON() ([]byte, error) {
	if v.raw == nil {
		return []byte("null"), nil
	}
	var x any
	if err := wire.Unmarshal(v.raw, &x); err != nil {
		return nil, fmt.Errorf("the answer has no JSON form: ask with Content-Type application/cbor: %w", err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(x); err != nil {
		return nil, fmt.Errorf("the answer has no JSON form: ask with Content-Type application/cbor: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// decodeBody reads the body of a request: nothing is the endpoint's zero message.
func decodeBody(f wire.Format, body []byte) (v value, err error) {
	if len(body) == 0 {
		return value{}, nil
	}
	if f == wire.JSON {
		var x any
		x, err = decodeJSON(body)
		if err != nil || x == nil {
			return value{}, err
		}
		body, err = wire.Marshal(x)
	}
	if err == nil {
		err = wire.Unmarshal(body, &v)
	}
	if err != nil { // the limits of what procs take
		return value{}, fmt.Errorf("cannot decode the body: %w", err)
	}
	return v, nil
}

// decodeJSON reads one value; nil for none.
func decodeJSON(body []byte) (any, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	v, err := wire.JSONValue(body)
	if err != nil {
		return nil, fmt.Errorf("the body is not JSON: %w", err)
	}
	return v, nil
}
