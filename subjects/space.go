package subjects

import "strings"

// The defaults of a Space, and the version of the wire.
const (
	DefaultRoot      = "castnet"
	DefaultNamespace = "default"
	Version          = "v1"

	defaultPrefix = DefaultRoot + "." + Version + "." + DefaultNamespace + "."
)

// MaxRoot is the longest root, in bytes.
const MaxRoot = 64

// MaxSubject is the longest subject a Space builds, in bytes (SUB-3): a cast with
// every token at its longest. It is far below NATS' control line of 4096.
const MaxSubject = maxPrefix + len("k.") + MaxName + len(".") + MaxName + len(".") + MaxLabel +
	len(".") + MaxCoords*(maxNumber+1) - 1 + len(".") + maxSender

const (
	maxPrefix = MaxRoot + len("."+Version+".") + MaxLabel + len(".")
	maxSender = maxPrincipal + len(".") + MaxName + 2*(1+maxNumber)
)

// Space is the part of the subject tree for one deployment. The zero Space is castnet.v1.default.
type Space struct{ prefix string } // "" for the default, so that equal spaces are ==

// NewSpace makes the Space <root>.v1.<namespace>. An empty argument takes its
// default. The root may be several labels joined by ".", at most MaxRoot bytes.
func NewSpace(root, namespace string) (Space, error) {
	if root == "" {
		root = DefaultRoot
	}
	if namespace == "" {
		namespace = DefaultNamespace
	}
	for token := range strings.SplitSeq(root, ".") {
		if !isLabel(token) || len(root) > MaxRoot {
			return Space{}, &Error{What: "subject root", Input: root,
				Want: "labels joined by dots, at most 64 bytes; a label is " + wantLabel}
		}
	}
	if err := CheckLabel("namespace", namespace); err != nil {
		return Space{}, err
	}
	prefix := root + "." + Version + "." + namespace + "."
	if prefix == defaultPrefix {
		prefix = ""
	}
	return Space{prefix}, nil
}

// String is the common prefix of all subjects of the Space, without the last dot.
func (s Space) String() string { return strings.TrimSuffix(s.prefixText(), ".") }

func (s Space) prefixText() string {
	if s.prefix == "" {
		return defaultPrefix
	}
	return s.prefix
}
