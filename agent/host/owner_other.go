//go:build !unix

package host

import "io/fs"

// ownFile cannot be told here, so nothing is the user's own.
func ownFile(fs.FileInfo) bool { return false }
