package wire

import (
	"strings"
	"unicode/utf8"
)

// Error is a failure on the wire: a failed answer, a dead letter, a broken link.
type Error struct {
	Code     uint16 `cbor:"1,keyasint" json:"code"`
	Text     string `cbor:"2,keyasint" json:"error"`
	Actor    string `cbor:"3,keyasint,omitempty" json:"actor,omitempty"`
	Endpoint string `cbor:"4,keyasint,omitempty" json:"endpoint,omitempty"`
	Ran      bool   `cbor:"5,keyasint,omitempty" json:"ran,omitempty"` // a handler may have run the message
	Event    []byte `cbor:"6,keyasint,omitempty" json:"-"`             // JSON: the end of the error's object
	Detail   []byte `cbor:"7,keyasint,omitempty" json:"-"`             // JSON: data of the code
}

// Bounds of an error on the wire: a reason, not a dump.
const (
	maxErrorText = 8 << 10
	maxErrorName = 512
	maxEvent     = 32 << 10
	maxDetail    = 4 << 10
)

// Bounded returns e as it may travel: not longer than it should be, and valid UTF-8, for no peer
// takes another text. A text is cut between two runes.
func (e Error) Bounded() Error {
	e.Text = truncateText(e.Text, maxErrorText)
	e.Actor = truncateText(e.Actor, maxErrorName)
	e.Endpoint = truncateText(e.Endpoint, maxErrorName)
	if len(e.Event) > maxEvent { // a part of a JSON text is not valid
		e.Event = nil
	}
	if len(e.Detail) > maxDetail {
		e.Detail = nil
	}
	return e
}

func truncateText(s string, size int) string {
	if len(s) > size {
		for size > 0 && !utf8.RuneStart(s[size]) {
			size--
		}
		s = s[:size] + "… [cut]"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
