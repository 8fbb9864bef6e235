package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/internal/cli"
)

// parseValue reads the JSON a person wrote into what castnet encodes for actors: whole numbers
// become int64, so that an endpoint that takes an integer accepts them, others float64. No text
// at all is null, which stands for an endpoint's empty message.
func parseValue(what, text string) (any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("there is more behind the first value")
		}
	}
	if err == nil {
		v, err = withNumbers(v)
	}
	if err != nil {
		return nil, cli.Usagef("%s %q: want JSON, such as 5, '\"text\"' or '{\"n\":1}': %v", what, text, err)
	}
	return v, nil
}

// withNumbers replaces every json.Number in a decoded value.
func withNumbers(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(v.String())
	case []any:
		for i := range v {
			if v[i], err = withNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = withNumbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func number(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s does not fit into 64 bits", text)
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s does not fit into 64 bits", text)
	}
	return f, nil
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
		negative := len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
		if negative && i > 0 && !strings.HasPrefix(args[i-1], "-") {
			out[i] = " " + arg
		}
	}
	return out
}
