package config

import "fmt"

// Error is one mistake in one place (CFG-3).
type Error struct {
	Place string // file:line:column, or that a client pushed it; "" for a variable and for Set
	Key   string // as it is written there: the key, or the variable
	Value string
	Want  string // what would be right; "" when there is no such key
	Near  string // the key that may have been meant, when there is no such key
}

func (e *Error) Error() string {
	text := ""
	if e.Place != "" {
		text = e.Place + ": "
	}
	if e.Want == "" {
		return text + noKey(e.Key, e.Near)
	}
	return text + fmt.Sprintf("%s=%s: want %s", e.Key, quote(e.Value), e.Want)
}

// noKey says that there is no such key, or variable.
func noKey(name, near string) string {
	text := fmt.Sprintf("there is no key %s", quote(name))
	if near != "" {
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	return text
}

// maxShown is how much of a text an error shows.
const maxShown = 80

func short(text string) string {
	if len(text) > maxShown {
		return text[:maxShown] + "…"
	}
	return text
}

func quote(text string) string { return fmt.Sprintf("%q", short(text)) }

// nearest is the name that differs least from one that does not exist; "" when none is like it.
func nearest(name string, names []string) string {
	name = short(name)
	best, least := "", len(name)/4+2
	for _, n := range names {
		if d := distance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance is how many bytes must be put in, left out or replaced to make b of a.
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
