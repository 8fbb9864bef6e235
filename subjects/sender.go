package subjects

import "strings"

// Letters of the roles that a principal may have. The first letter of a principal is one of them.
const (
	roleHost     = 'h'
	roleProc     = 'p'
	roleSystem   = 's'
	roleGateway  = 'g'
	roleProgram  = 'u'
	roleOperator = 'o'
	roleObserver = 'w'
)

// maxPrincipal is the length of the longest principal, in bytes.
const maxPrincipal = len("h-") + MaxLabel

// Principal names the user or the host that a process speaks for, and its role: a letter, "-" and a
// label. Permissions of a server pin it. It is no address: links and fences know a peer by its
// process.
type Principal struct{ s string }

// anonPrincipal is the text of a program's principal whose user is unknown.
const anonPrincipal = "u-anon"

// ParsePrincipal reads a principal.
func ParsePrincipal(s string) (Principal, error) {
	if !isPrincipal(s) {
		return Principal{}, &Error{What: "principal", Input: s, Want: wantPrincipal}
	}
	return Principal{s}, nil
}

// HostPrincipal is the principal of the hostd with a label; the zero Principal if it is no label.
func HostPrincipal(label string) Principal { return newPrincipal(roleHost, label) }

// ProcPrincipal is the principal of procs that the hostd with that label has launched.
func ProcPrincipal(label string) Principal { return newPrincipal(roleProc, label) }

// SystemPrincipal is the principal of the system controller of a host.
func SystemPrincipal(label string) Principal { return newPrincipal(roleSystem, label) }

// GatewayPrincipal is the principal of the gateway of a host.
func GatewayPrincipal(label string) Principal { return newPrincipal(roleGateway, label) }

// ProgramPrincipal is the principal of a user's program: u-anon if the name is no label.
func ProgramPrincipal(user string) Principal {
	if !isLabel(user) {
		return Principal{anonPrincipal}
	}
	return newPrincipal(roleProgram, user)
}

func newPrincipal(role byte, label string) Principal {
	if !isLabel(label) {
		return Principal{}
	}
	return Principal{string([]byte{role, '-'}) + label}
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
func Anon() Sender { return Sender{anonPrincipal + ".x"} }

// IsHost reports whether the sender is a hostd.
func (s Sender) IsHost() bool { return strings.HasPrefix(s.s, string(roleHost)+"-") }

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
	return len(s) > 2 && isRole(s[0]) && s[1] == '-' && isLabel(s[2:])
}

func isRole(letter byte) bool {
	switch letter {
	case roleHost, roleProc, roleSystem, roleGateway, roleProgram, roleOperator, roleObserver:
		return true
	}
	return false
}

// isProcess reports whether s is the second token of a sender.
func isProcess(s string) bool {
	_, ok := parseProcess(s)
	return ok || isLabel(s)
}
