package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/internal/text"
)

// Limits of documents (MCP-3).
const (
	maxDocument = 8 << 20  // as a command prints it
	maxResult   = 48 << 10 // as a client gets it
	maxNotes    = 16 << 10 // of a command
	maxPaths    = 8        // of cut lists in a note
)

// shorten returns a document without spaces and within limit. Longer lists and texts are cut, and
// the note says which. newest keeps the ends of lists instead of their beginnings.
func shorten(document []byte, limit int, newest bool) (short, note string, err error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, document); err != nil {
		return "", "", fmt.Errorf("the result is not JSON: %w", err)
	}
	if compact.Len() <= limit {
		return compact.String(), "", nil
	}
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.UseNumber() // keeps the digits of large numbers
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", "", err
	}
	for most := 2048; most > 0; most /= 2 {
		c := cutter{most: most, newest: newest, lists: map[string]int{}}
		cut, err := encode(c.cut("", v, 0))
		if err != nil {
			return "", "", err
		}
		if len(cut) <= limit {
			return cut, c.note(limit), nil
		}
	}
	return "", "", errors.New("the result is too large, and has no long list to cut: ask for less")
}

func encode(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSpace(b.String()), nil
}

// cutter cuts the lists, objects and texts of one document.
type cutter struct {
	most   int // items of a list, and members of an object
	newest bool
	lists  map[string]int // the longest list at each cut path
	texts  int            // cut ones
	deep   int            // cut lists and objects in too many others
}

// Sizes that are kept at least.
const (
	leastMembers = 32  // of an object: those of castnet have fewer
	leastText    = 128 // runes
	textPerItem  = 16  // runes of a text for each item of a list
	maxDepth     = 64  // of lists and objects; documents of castnet have less than 10
)

func (c *cutter) cut(path string, v any, depth int) any {
	if depth > maxDepth {
		c.deep++
		return "…"
	}
	switch v := v.(type) {
	case string:
		runes := []rune(v)
		most := max(leastText, c.most*textPerItem)
		if len(runes) <= most {
			return v
		}
		c.texts++
		return string(runes[:most]) + "…"
	case []any:
		if len(v) > c.most {
			c.lists[path] = max(c.lists[path], len(v))
			if c.newest {
				v = v[len(v)-c.most:]
			} else {
				v = v[:c.most]
			}
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = c.cut(path, item, depth+1)
		}
		return out
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if most := max(leastMembers, c.most); len(names) > most {
			c.lists[path] = max(c.lists[path], len(names))
			names = names[:most]
		}
		out := make(map[string]any, len(names))
		for _, name := range names {
			out[name] = c.cut(strings.TrimPrefix(path+"."+name, "."), v[name], depth+1)
		}
		return out
	}
	return v
}

// note says what was cut.
func (c *cutter) note(limit int) string {
	kept := "first"
	if c.newest {
		kept = "last"
	}
	var parts []string
	for _, path := range slices.Sorted(maps.Keys(c.lists)) {
		name := "the list"
		if path != "" {
			name = text.Shorten(path, leastText)
		}
		part := fmt.Sprintf("%s has the %s %d of %d items", name, kept, c.most, c.lists[path])
		parts = append(parts, part)
	}
	if more := len(parts) - maxPaths; more > 0 {
		parts = append(parts[:maxPaths], text.Pluralize(more, "more list"))
	}
	if c.texts > 0 {
		parts = append(parts, text.Pluralize(c.texts, "long text")+" cut at …")
	}
	if c.deep > 0 {
		parts = append(parts, text.Pluralize(c.deep, "deep value")+" left out")
	}
	return fmt.Sprintf("The result was cut to %d KiB: %s. Ask for a region or for less to see the others.",
		limit>>10, strings.Join(parts, "; "))
}
