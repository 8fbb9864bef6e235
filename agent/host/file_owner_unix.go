//go:build unix

package host

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwnFile reports whether a file belongs to the host's user and is not world-writable. Group
// write is permitted, because many systems give each user a private group.
func isOwnFile(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid() && info.Mode()&0o002 == 0
}
