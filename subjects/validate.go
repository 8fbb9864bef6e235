package subjects

import (
	"crypto/rand"
	"math"
	"strings"
)

// Lengths of the pieces of a name.
const (
	MaxLabel  = 32                    // characters of a label
	UIDLen    = 13                    // characters of a uid: 67 bits
	MaxName   = MaxLabel + 1 + UIDLen // characters of label-uid
	MaxCoords = 4                     // dimensions in a <where> token

	maxReplyTokens = 4  // tokens of a reply address; those of NATS clients have one or two
	maxNumber      = 10 // digits of a uint32
)

// Any stands for every host: each live one answers. No HostID can equal it.
const Any = "any"

const (
	wantLabel     = "1 to 32 characters of A-Z a-z 0-9 _ -, starting with a letter or digit"
	wantUID       = "label-uid: a label of " + wantLabel + "; then 13 characters of 0-9 a-z"
	wantName      = wantLabel + "; or such a label, -, and 13 characters of 0-9 a-z"
	wantPort      = wantLabel + "; or _ and 1 to 31 characters of 0-9 a-z for a system port"
	wantProcess   = "label-uid_rank-gen, or " + wantLabel
	wantPrincipal = "h, p, s, g, u, o or w for the role, then - and " + wantLabel
	wantCoords    = "1 to 4 coordinates joined by -, each a number or _"
	wantHost      = "a host ID as label-uid, or " + Any
)

// CheckLabel returns nil if s is a label. Otherwise its error names s by its role what ("host
// label", "verb") and shows the rule.
func CheckLabel(what, s string) error { return check(isLabel(s), what, s, wantLabel) }

// CheckName returns nil if s is a name: a label, or label-uid.
func CheckName(what, s string) error { return check(isName(s), what, s, wantName) }

// CheckPort returns nil if s is a port token.
func CheckPort(s string) error { return check(isPort(s), "port", s, wantPort) }

// CheckCoords returns nil if s is the place token of a cast: 1 to 4 coordinates joined by "-", each
// a number or "_" for the whole dimension.
func CheckCoords(s string) error { return check(isCoords(s), "place", s, wantCoords) }

// NewName draws a new actor name label-uid.
func NewName(label string) (string, error) { return newLabelUID("actor label", label) }

func check(ok bool, what, s, want string) error {
	if ok {
		return nil
	}
	return &Error{What: what, Input: s, Want: want}
}

// newLabelUID draws label-uid.
func newLabelUID(what, label string) (string, error) {
	if err := CheckLabel(what, label); err != nil {
		return "", err
	}
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	text := append(make([]byte, 0, MaxName), label...)
	text = append(text, '-')
	full := len(text) + UIDLen
	for draw := make([]byte, UIDLen); len(text) < full; {
		rand.Read(draw) // never fails: it ends the program rather than return bad bytes
		for _, b := range draw {
			// 252 is the largest multiple of 36 in a byte: past it digits would be uneven.
			if b < 252 && len(text) < full {
				text = append(text, digits[b%36])
			}
		}
	}
	return string(text), nil
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isLabel(s string) bool {
	if len(s) == 0 || len(s) > MaxLabel || !isAlnum(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !isAlnum(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// isBase36 reports whether s is all [0-9a-z].
func isBase36(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'z') {
			return false
		}
	}
	return true
}

// isLabelUID reports whether s is label-uid. It reads from the right, because a
// label may hold "-" and a uid may not.
func isLabelUID(s string) bool {
	dash := len(s) - UIDLen - 1
	return dash > 0 && s[dash] == '-' && isLabel(s[:dash]) && isBase36(s[dash+1:])
}

func isName(s string) bool { return isLabel(s) || isLabelUID(s) }

func isPort(s string) bool {
	if strings.HasPrefix(s, "_") {
		return len(s) > 1 && len(s) <= MaxLabel && isBase36(s[1:])
	}
	return isLabel(s)
}

func isHost(s string) bool { return s == Any || isLabelUID(s) }

func isCoords(s string) bool {
	for range MaxCoords {
		part, rest, more := strings.Cut(s, "-")
		if _, ok := parseNumber(part); !ok && part != "_" {
			return false
		}
		if !more {
			return true
		}
		s = rest
	}
	return false
}

// isReplyToken reports whether s is 1 to 4 labels joined by ".".
func isReplyToken(s string) bool {
	for range maxReplyTokens {
		label, rest, more := strings.Cut(s, ".")
		if !isLabel(label) {
			return false
		}
		if !more {
			return true
		}
		s = rest
	}
	return false
}

// parseNumber reads a uint32 in its only spelling (SUB-1).
func parseNumber(s string) (uint32, bool) {
	if len(s) == 0 || len(s) > maxNumber || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return uint32(n), n <= math.MaxUint32
}

// parseRank parses rank<sep>gen, or rank<sep>gen<sep>index.
func parseRank(s, sep string) (p ProcID, ok bool) {
	left, right, found := strings.Cut(s, sep)
	right, index, indexed := strings.Cut(right, sep)
	rank, okRank := parseNumber(left)
	gen, okGen := parseNumber(right)
	p = ProcID{Rank: rank, Gen: gen}
	ok = found && okRank && okGen
	if indexed {
		n, okIndex := parseNumber(index)
		p.Index = n
		ok = ok && okIndex && n > 0 && n <= rank
	}
	return p, ok
}
