package counting

import (
	"context"
	"hash/fnv"
	"io/fs"
	"slices"
	"strings"
)

// list returns the sorted paths of all regular files below a folder with the suffix.
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
	slices.Sort(files) // the order of a walk depends on the separator
	return files, err
}

// digest returns a hash of a list, to compare lists.
func digest(files []string) uint64 {
	h := fnv.New64a()
	for _, f := range files {
		h.Write(append([]byte(f), 0)) // a hash accepts all bytes
	}
	return h.Sum64()
}

// share returns every n-th file, starting at index rank (WC-1).
func share(files []string, rank, n int) []string {
	var mine []string
	for i := rank; i < len(files); i += n {
		mine = append(mine, files[i])
	}
	return mine
}
