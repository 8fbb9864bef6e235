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

// parseValue reads the JSON a person wrote into what castnet encodes for actors (wire.JSONValue). No text at
// all is null, which stands for an endpoint's empty message.
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

// encodeValue writes an answer as JSON on one line.
func encodeValue(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("the answer cannot be written as JSON: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// shieldNumbers keeps a negative number on the command line from being read as a flag: JSON may
// begin with a space. What follows a flag may be its value, and is left alone.
func shieldNumbers(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break // what comes is taken as it is
		}
		negative := len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
		if negative && i > 0 && !strings.HasPrefix(args[i-1], "-") {
			out[i] = " " + arg
		}
	}
	return out
}
