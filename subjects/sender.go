package subjects

import "strings"

// maxPrincipal is the length of the longest principal, in bytes.
const maxPrincipal = len("h-") + MaxLabel

// Principal names the user or the host that a process speaks for, and its role: a letter, "-" and a
// label. Permissions of a server pin it. It is no address: links and fences know a peer by its
// process.
type Principal struct{ s string }

// anonLabel is the label of a principal whose user is unknown.
const anonLabel = "anon"

// ParsePrincipal reads a principal.
func ParsePrincipal(s string) (Principal, error) {
	if !isPrincipal(s) {
		return Principal{}, &Error{What: "principal", Input: s, Want: wantPrincipal}
	}
	return Principal{s}, nil
}

// Principal is the principal of that role and label; the zero Principal if it is no label.
func (r Role) Principal(label string) Principal {
	if r.letter() == 0 || !isLabel(label) {
		return Principal{}
	}
	return Principal{string([]byte{r.letter(), '-'}) + label}
}

// UserPrincipal is the principal of a person's program: <role>-anon if the name is no label.
func UserPrincipal(role Role, user string) Principal {
	if !isLabel(user) {
		user = anonLabel
	}
	return role.Principal(user)
}

// Role is the role of the principal, 0 if it is invalid.
func (p Principal) Role() Role {
	if p.s == "" {
		return 0
	}
	return roleOf(p.s[0])
}

// Label is the name behind the role.
func (p Principal) Label() string {
	_, label, _ := strings.Cut(p.s, "-")
	return label
}

// String is the principal's text, "" if invalid.
func (p Principal) String() string { return p.s }

// IsValid reports whether p names a principal: all but the zero value do.
func (p Principal) IsValid() bool { return p.s != "" }

// Sender is the sender of a message: the pair <principal>.<process> at the end of its subject.
type Sender struct{ s string }

// NewSender is the sender of a castnet process; invalid if a part is.
func NewSender(principal Principal, process ProcessID) Sender {
	if !principal.IsValid() || !process.IsValid() {
		return Sender{}
	}
	return Sender{principal.s + "." + process.s}
}

// Anon is the sender of a client without credentials: u-anon.x.
func Anon() Sender { return Sender{"u-" + anonLabel + ".x"} }

// Role is the role of the sender's principal.
func (s Sender) Role() Role { return Principal(s).Role() }

// ParseSender reads <principal>.<process>. The process may be the label of a foreign client.
func ParseSender(s string) (Sender, error) {
	principal, process, found := strings.Cut(s, ".")
	if !found || !isPrincipal(principal) || !isProcess(process) {
		return Sender{}, &Error{What: "sender", Input: s,
			Want: "<principal>.<process>, as u-alice.x; a principal is " + wantPrincipal + "; a process is " +
				wantProcess}
	}
	return Sender{s}, nil
}

// Principal is the first token of the sender.
func (s Sender) Principal() Principal {
	principal, _, _ := strings.Cut(s.s, ".")
	return Principal{principal}
}

// Process is the castnet process that sent the message. A foreign client has none: an error.
func (s Sender) Process() (ProcessID, error) {
	_, process, _ := strings.Cut(s.s, ".")
	return ParseProcessID(process)
}

// String is the sender's text, "" if invalid.
func (s Sender) String() string { return s.s }

// IsValid reports whether s names a sender: all but the zero value do.
func (s Sender) IsValid() bool { return s.s != "" }

// AppendText appends the text of a valid sender.
func (s Sender) AppendText(b []byte) ([]byte, error) { return appendText(b, "sender", s) }

// MarshalText is the text of a valid sender.
func (s Sender) MarshalText() ([]byte, error) { return s.AppendText(nil) }

// UnmarshalText is ParseSender.
func (s *Sender) UnmarshalText(text []byte) error { return unmarshal(s, text, ParseSender) }

func isPrincipal(s string) bool {
	return len(s) > 2 && roleOf(s[0]) != 0 && s[1] == '-' && isLabel(s[2:])
}

// isProcess reports whether s is the second token of a sender.
func isProcess(s string) bool {
	_, ok := parseProcess(s)
	return ok || isLabel(s)
}
