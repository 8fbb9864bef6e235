package subjects

// AppendText appends the text of a valid principal.
func (p Principal) AppendText(b []byte) ([]byte, error) { return appendText(b, "principal", p) }

// MarshalText is the text of a valid principal.
func (p Principal) MarshalText() ([]byte, error) { return p.AppendText(nil) }

// UnmarshalText is ParsePrincipal.
func (p *Principal) UnmarshalText(text []byte) error { return unmarshal(p, text, ParsePrincipal) }
