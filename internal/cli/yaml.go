package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is a node of a YAML document with its position for errors. It is a text, a list, a mapping
// or empty. Aliases are not supported.
type Value struct {
	Position string // file:line:column
	Text     string
	IsText   bool
	List     []Value // nil: no list
	Fields   []Field // nil: no mapping
}

// Field is a key of a mapping, in document order. Keys are unique.
type Field struct {
	Key      string
	Position string
	Value    Value
}

// ParseYAML parses the documents of a file. Errors use name.
func ParseYAML(name string, data []byte) ([]Value, error) {
	if len(data) > maxConfigSize {
		return nil, Usagef("%s: more than %d bytes", name, maxConfigSize)
	}
	var out []Value
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, yamlError(name, err)
		}
		v, err := valueOf(name, doc.Content[0], 1)
		if err != nil {
			return nil, WithCode(ExitUsage, err)
		}
		out = append(out, v)
	}
}

// yamlError adds the position to a parser error.
func yamlError(name string, err error) error {
	why := strings.TrimPrefix(err.Error(), "yaml: ")
	if line, ok := strings.CutPrefix(why, "line "); ok {
		return Usagef("%s:%s", name, line)
	}
	return Usagef("%s: %s", name, why)
}

// valueOf converts a node with its descendants.
func valueOf(name string, n *yaml.Node, depth int) (Value, error) {
	v := Value{Position: fmt.Sprintf("%s:%d:%d", name, n.Line, n.Column)}
	if depth > maxConfigDepth {
		return v, fmt.Errorf("%s: want at most %d levels", v.Position, maxConfigDepth)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		v.Text, v.IsText = n.Value, n.Tag != "!!null"
		return v, nil
	case yaml.SequenceNode:
		v.List = []Value{}
		for _, item := range n.Content {
			x, err := valueOf(name, item, depth+1)
			if err != nil {
				return v, err
			}
			v.List = append(v.List, x)
		}
		return v, nil
	case yaml.MappingNode:
		return v, v.readFields(name, n, depth)
	}
	return v, fmt.Errorf("%s: want a value: no alias", v.Position)
}

func (v *Value) readFields(name string, n *yaml.Node, depth int) error {
	v.Fields = []Field{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		f := Field{Key: key.Value, Position: fmt.Sprintf("%s:%d:%d", name, key.Line, key.Column)}
		if key.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s: want the name of a key", f.Position)
		}
		for _, before := range v.Fields {
			if before.Key == f.Key {
				return fmt.Errorf("%s: %q is set already: %s", f.Position, f.Key, before.Position)
			}
		}
		var err error
		f.Value, err = valueOf(name, n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		v.Fields = append(v.Fields, f)
	}
	return nil
}
