package wire

import (
	"strings"
	"unicode/utf8"
)

// Error is a failure on the wire: an answer that is not a value, a bounced message, a broken link.
type Error struct {
	Code     uint16 `cbor:"1,keyasint" json:"code"`
	Text     string `cbor:"2,keyasint" json:"error"`
	Actor    string `cbor:"3,keyasint,omitempty" json:"actor,omitempty"`
	Endpoint string `cbor:"4,keyasint,omitempty" json:"endpoint,omitempty"`
	Ran      bool   `cbor:"5,keyasint,omitempty" json:"ran,omitempty"` // a handler may have run the message
	Event    []byte `cbor:"6,keyasint,omitempty" json:"-"`             // JSON: the end of what the error is about
	Detail   []byte `cbor:"7,keyasint,omitempty" json:"-"`             // JSON: what else belongs to the code
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
	e.Text = bounded(e.Text, maxErrorText)
	e.Actor = bounded(e.Actor, maxErrorName)
	e.Endpoint = bounded(e.Endpoint, maxErrorName)
	if len(e.Event) > maxEvent { // half a JSON text is none
		e.Event = nil
	}
	if len(e.Detail) > maxDetail {
		e.Detail = nil
	}
	return e
}

func bounded(s string, size int) string {
	if len(s) > size {
		for size > 0 && !utf8.RuneStart(s[size]) {
			size--
		}
		s = s[:size] + "… [cut]"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
