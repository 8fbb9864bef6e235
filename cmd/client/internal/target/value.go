package target

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/wire"
)

// ParseValue parses JSON into a value for actors (wire.JSONValue). Empty text is null, for an
// endpoint's empty message.
func ParseValue(what, text string) (any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	v, err := wire.JSONValue([]byte(text))
	if err != nil {
		return nil, cli.Usagef("%s %q: want JSON, such as 5, '\"text\"' or '{\"n\":1}': %v", what, text, err)
	}
	return v, nil
}

// EncodeValue encodes a reply as JSON on one line.
func EncodeValue(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("cannot encode the answer as JSON: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
