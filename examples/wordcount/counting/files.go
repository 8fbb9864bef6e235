package counting

import (
	"context"
	"hash/fnv"
	"io/fs"
	"slices"
	"strings"
)

// list is the sorted paths of all regular files below a folder whose name ends in suffix.
func list(ctx context.Context, folder fs.FS, suffix string) ([]string, error) {
	var files []string
	err := fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, suffix) {
			files = append(files, path)
		}
		return err
	})
	slices.Sort(files) // a walk sorts folder by folder, which depends on what a separator is
	return files, err
}

// digest tells two lists apart.
func digest(files []string) uint64 {
	h := fnv.New64a()
	for _, f := range files {
		h.Write(append([]byte(f), 0)) // a hash takes every byte
	}
	return h.Sum64()
}

// share is every n-th file, from the rank-th on (WC-1).
func share(files []string, rank, n int) []string {
	var mine []string
	for i := rank; i < len(files); i += n {
		mine = append(mine, files[i])
	}
	return mine
}
