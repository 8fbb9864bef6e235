package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/wire"
)

// parseValue parses JSON into a value for actors (wire.JSONValue). Empty text is null, for an
// endpoint's empty message.
func parseValue(what, text string) (any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	v, err := wire.JSONValue([]byte(text))
	if err != nil {
		return nil, cli.Usagef("%s %q: want JSON, such as 5, '\"text\"' or '{\"n\":1}': %v", what, text, err)
	}
	return v, nil
}

// encodeValue encodes a reply as JSON on one line.
func encodeValue(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("cannot encode the answer as JSON: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// escapeNegativeNumbers keeps a negative number from being parsed as a flag, by a space before it.
// A number after a flag may be the flag's value and stays.
func escapeNegativeNumbers(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break // the rest stays as it is
		}
		negative := len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
		if negative && i > 0 && !strings.HasPrefix(args[i-1], "-") {
			out[i] = " " + arg
		}
	}
	return out
}
