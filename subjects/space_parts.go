package subjects

import "strings"

// Root is the first part of the Space, as given to NewSpace.
func (s Space) Root() string {
	root, _ := s.parts()
	return root
}

// Namespace is the last part of the Space, as given to NewSpace.
func (s Space) Namespace() string {
	_, namespace := s.parts()
	return namespace
}

func (s Space) parts() (root, namespace string) {
	text := s.String()
	dot := strings.LastIndexByte(text, '.')
	return strings.TrimSuffix(text[:dot], "."+Version), text[dot+1:]
}

// Owns reports whether a subject is castnet's: of this root, in any version and namespace.
func (s Space) Owns(subject string) bool { return strings.HasPrefix(subject, s.Root()+".") }

// Bucket is the name of the JetStream bucket with the worlds of the Space.
func (s Space) Bucket() string {
	return "castnet-" + strings.ReplaceAll(s.Root()+"-"+s.Namespace(), ".", "_")
}
