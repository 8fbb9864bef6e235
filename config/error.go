package config

import "fmt"

// Error is one mistake in one source (CFG-2).
type Error struct {
	Source     string // file:line:column, or the client; "" for a variable and for Set
	Key        string // as written: the key or the variable
	Value      string
	Want       string // expected form; "" for an unknown key
	Suggestion string // similar key for an unknown one
}

func (e *Error) Error() string {
	text := ""
	if e.Source != "" {
		text = e.Source + ": "
	}
	if e.Want == "" {
		return text + unknownKeyText(e.Key, e.Suggestion)
	}
	return text + fmt.Sprintf("%s=%s: want %s", e.Key, quote(e.Value), e.Want)
}

// unknownKeyText is the error text for an unknown key or variable.
func unknownKeyText(name, near string) string {
	text := fmt.Sprintf("there is no key %s", quote(name))
	if near != "" {
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	return text
}

// maxQuoted bounds the quoted text in an error.
const maxQuoted = 80

func truncate(text string) string {
	if len(text) > maxQuoted {
		return text[:maxQuoted] + "…"
	}
	return text
}

func quote(text string) string { return fmt.Sprintf("%q", truncate(text)) }

// nearest returns the known name most similar to an unknown one, or "".
func nearest(name string, names []string) string {
	name = truncate(name)
	best, least := "", len(name)/4+2
	for _, n := range names {
		if d := distance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance returns the edit distance of a and b in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
