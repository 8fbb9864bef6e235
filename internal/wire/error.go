package wire

// Error is a failure on the wire: an answer that is not a value, a bounced message, a broken link.
type Error struct {
	Code     uint16 `cbor:"1,keyasint" json:"code"`
	Text     string `cbor:"2,keyasint" json:"error"`
	Actor    string `cbor:"3,keyasint,omitempty" json:"actor,omitempty"`
	Endpoint string `cbor:"4,keyasint,omitempty" json:"endpoint,omitempty"`
}

// maxErrorText bounds the text of an error on the wire: a reason, not a dump.
const maxErrorText = 8 << 10

// Bounded returns e with its text cut to what may travel.
func (e Error) Bounded() Error {
	if len(e.Text) > maxErrorText {
		e.Text = e.Text[:maxErrorText] + "… [cut]"
	}
	return e
}
