//go:build unix

package host

import (
	"io/fs"
	"os"
	"syscall"
)

// ownFile reports whether a file belongs to the host's own user and not everybody may change it.
// Its group may: users' own groups are theirs alone, and their umask often says so.
func ownFile(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid() && info.Mode()&0o002 == 0
}
