package subjects

import "strings"

// MeshID names a mesh: label-uid.
type MeshID struct{ s string }

// NewMeshID draws a new mesh ID with this label.
func NewMeshID(label string) (MeshID, error) {
	s, err := newLabelUID("mesh label", label)
	return MeshID{s}, err
}

// ParseMeshID reads label-uid.
func ParseMeshID(s string) (MeshID, error) {
	if !isLabelUID(s) {
		return MeshID{}, &Error{What: "mesh ID", Input: s, Want: wantUID}
	}
	return MeshID{s}, nil
}

// Label is the part people chose.
func (m MeshID) Label() string { return labelPart(m.s) }

// UID is the unique part of the ID.
func (m MeshID) UID() string { return m.s[len(m.s)-min(len(m.s), UIDLen):] }

// String is the ID's text, "" if invalid.
func (m MeshID) String() string { return m.s }

// IsValid reports whether m names a mesh: all but the zero value do.
func (m MeshID) IsValid() bool { return m.s != "" }

// Compare orders by text.
func (m MeshID) Compare(o MeshID) int { return strings.Compare(m.s, o.s) }

// AppendText appends the text of a valid ID.
func (m MeshID) AppendText(b []byte) ([]byte, error) { return appendText(b, "mesh ID", m) }

// MarshalText is the text of a valid ID.
func (m MeshID) MarshalText() ([]byte, error) { return m.AppendText(nil) }

// UnmarshalText is ParseMeshID.
func (m *MeshID) UnmarshalText(text []byte) error { return unmarshal(m, text, ParseMeshID) }

// HostID names a hostd or a client: label-uid.
type HostID struct{ s string }

// NewHostID draws a new host ID with this label.
func NewHostID(label string) (HostID, error) {
	s, err := newLabelUID("host label", label)
	return HostID{s}, err
}

// ParseHostID reads label-uid.
func ParseHostID(s string) (HostID, error) {
	if !isLabelUID(s) {
		return HostID{}, &Error{What: "host ID", Input: s, Want: wantUID}
	}
	return HostID{s}, nil
}

// Proc is the host's service proc: rank 0 of the unit mesh with the same text.
func (h HostID) Proc() ProcID { return ProcID{Mesh: MeshID(h)} }

// Label is the part people chose.
func (h HostID) Label() string { return labelPart(h.s) }

// UID is the unique part of the ID.
func (h HostID) UID() string { return h.s[len(h.s)-min(len(h.s), UIDLen):] }

// String is the ID's text, "" if invalid.
func (h HostID) String() string { return h.s }

// IsValid reports whether h names a host: all but the zero value do.
func (h HostID) IsValid() bool { return h.s != "" }

// Compare orders by text.
func (h HostID) Compare(o HostID) int { return strings.Compare(h.s, o.s) }

// AppendText appends the text of a valid ID.
func (h HostID) AppendText(b []byte) ([]byte, error) { return appendText(b, "host ID", h) }

// MarshalText is the text of a valid ID.
func (h HostID) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText is ParseHostID.
func (h *HostID) UnmarshalText(text []byte) error { return unmarshal(h, text, ParseHostID) }

// labelPart is the label of a label-uid, "" of an empty text.
func labelPart(s string) string { return s[:max(len(s)-UIDLen-1, 0)] }

// appendText is the one AppendText of all IDs (SUB-1).
func appendText(b []byte, what string, id interface{ String() string }) ([]byte, error) {
	s := id.String()
	if s == "" {
		return b, errInvalid(what)
	}
	return append(b, s...), nil
}

// unmarshal is the one UnmarshalText of all IDs. On error dst is untouched.
func unmarshal[T any](dst *T, text []byte, parse func(string) (T, error)) error {
	id, err := parse(string(text))
	if err == nil {
		*dst = id
	}
	return err
}
