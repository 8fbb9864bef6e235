package build

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// goNote is the section of an ELF file that holds the Go toolchain's build id, a hash of all that
// went into the binary.
const goNote = ".note.go.buildid"

// maxNote bounds what is read of it.
const maxNote = 4 << 10

// running is the path of the running program (Linux). It stays valid when a rebuild replaces the
// file at the original path.
const running = "/proc/self/exe"

// ID identifies the program of this process. Two processes with the same ID run the same code.
func ID() (string, error) {
	if id, err := Of(running); err == nil {
		return id, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("build id: %w", err)
	}
	return Of(path)
}

// Of identifies the program in an executable file: by the toolchain's build id where the
// file has one, which costs one read, else by the hash of the whole file.
func Of(path string) (string, error) {
	if note, ok := buildNote(path); ok {
		return short(sha256.Sum256(note)), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("build id: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("build id of %s: %w", path, err)
	}
	return short([sha256.Size]byte(h.Sum(nil))), nil
}

func buildNote(path string) ([]byte, bool) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	s := f.Section(goNote)
	if s == nil || s.Size > maxNote {
		return nil, false
	}
	note, err := s.Data()
	// Header, the owner "Go" and a length of more than nothing: a linker without an id
	// writes an empty one, which would make all programs equal.
	return note, err == nil && len(note) > 16+16
}

func short(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:6]) }
