package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// ShellQuote quotes a text as one shell word.
func ShellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:=,@%+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// maxNamed bounds the names in a text.
const maxNamed = 5

// Names lists some hosts by name, and the number of the others.
func Names(all []string) string {
	if more := len(all) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), more)
	}
	return strings.Join(all, ", ")
}

// Age formats a duration in at most two units.
func Age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h" + strconv.Itoa(int(d.Minutes())%60) + "m"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

// Remaining formats a remaining time.
func Remaining(d time.Duration) string {
	if d < 10*time.Second {
		return d.Truncate(100 * time.Millisecond).String()
	}
	return Age(d)
}

// Size formats a number of bytes; "-": unknown.
func Size(n int64) string {
	const mebibyte = 1 << 20
	switch {
	case n == 0:
		return "-"
	case n < mebibyte:
		return fmt.Sprintf("%dKi", n>>10)
	case n < 10_000*mebibyte:
		return fmt.Sprintf("%dMi", n>>20)
	}
	return fmt.Sprintf("%dGi", n>>30)
}

// HostLabel returns the label part of a host ID.
func HostLabel(id string) string {
	h, err := subjects.ParseHostID(id)
	if err != nil {
		return OrDash(id)
	}
	return h.Label()
}

// Pluralize formats a number with its noun.
func Pluralize(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "sh"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Label returns the label part of a name.
func Label(name string) string {
	if n := len(name) - subjects.UIDLen - 1; n > 0 && name[n] == '-' {
		return name[:n]
	}
	return name
}

// StripActorID removes a leading actor ID from a reason, because the region names the actor.
func StripActorID(reason string) string {
	id, rest, ok := strings.Cut(reason, ": ")
	if _, err := subjects.ParseActorID(id); !ok || err != nil {
		return reason
	}
	return rest
}

// OrDash fills an empty cell.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Shorten cuts a text to one line of n characters.
func Shorten(s string, n int) string {
	s, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	if more && strings.TrimSpace(rest) != "" {
		return s + " …"
	}
	return s
}

// maxReason bounds a reason in a table.
const maxReason = 200

// Reason is a reason as one cell of a table, "-" if there is none.
func Reason(s string) string { return OrDash(Shorten(s, maxReason)) }
