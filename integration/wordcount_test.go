package integration

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/mesh"
)

// oracle counts the words of a folder without a mesh.
func oracle(t *testing.T, folder, suffix string) (counts map[string]int64, files int, words int64) {
	t.Helper()
	between := func(r rune) bool { return !unicode.In(r, unicode.L, unicode.Nd) && r != '_' }
	counts = map[string]int64{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, suffix) {
			return err
		}
		text, err := os.ReadFile(path)
		for _, w := range strings.FieldsFunc(strings.ToLower(string(text)), between) {
			if first, _ := utf8.DecodeRuneInString(w); len(w) <= counting.MaxWord && !unicode.Is(unicode.Nd, first) {
				counts[w]++
				words++
			}
		}
		files++
		return err
	})
	require.NoError(t, err)
	return counts, files, words
}

// corpus is a small folder with the special cases of a large one.
func corpus(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty.go": "", "blank.go": " \n\t\n", "broken.go": "a\xffb \xe2\x82 c",
		"long.go":        strings.Repeat("f", 1<<20) + " end",
		"sub/deep/er.go": "package er // größer ÄRGER 漢字 snake_case x1", "notes.txt": "nobody counts this",
		"sub/x-y.go": "x y x",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	require.NoError(t, os.Symlink("broken.go", filepath.Join(dir, "link.go")))
	for i := range 40 {
		text := fmt.Sprintf("package p%d\nfunc f%d() int { return %d }\n", i%3, i, i*i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d.go", i)), []byte(text), 0o644))
	}
	return dir
}

func counters(t *testing.T, procs mesh.ProcMesh) mesh.ActorMesh[*counting.Counter] {
	t.Helper()
	m, err := mesh.Spawn(t.Context(), procs, counting.Type, "counters", actor.None{})
	require.NoError(t, err)
	return m
}

func TestWordCount_matchesASingleProcess(t *testing.T) { // WC-1
	t.Parallel()
	c := newCluster(t, "a", "b")
	m := counters(t, c.spawn(t, c.connect(t), 4))
	// a binary built with -trimpath does not know it
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	src := filepath.Join(strings.TrimSpace(string(root)), "src")
	for name, folder := range map[string]string{
		"corpus": corpus(t), "go": filepath.Join(src, "strings"), "cmd": filepath.Join(src, "net"),
	} {
		want, files, words := oracle(t, folder, ".go")
		shares, err := counting.Count(t.Context(), m, counting.Job{Folder: folder, Suffix: ".go"})
		require.NoError(t, err, name)
		gotFiles, gotWords := 0, int64(0)
		for _, s := range shares.Values() {
			gotFiles, gotWords = gotFiles+s.Files, gotWords+s.Words
		}
		require.Equal(t, files, gotFiles, name)
		require.Equal(t, words, gotWords, name)
		for _, limit := range []int{counting.Limit(1 << 20), 4 << 10} { // WC-3: few shards, and many
			total, err := counting.Fold(t.Context(), m, counting.Shards(shares, limit), limit)
			require.NoError(t, err)
			require.Equal(t, want, total.Counts, "%s with messages of %d bytes", name, limit)
		}
		done, err := counting.Look(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, counting.Done{Files: int64(files), Of: int64(files)}, done)
	}
}

func TestWordCount_splitsOversizedShards(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	m := counters(t, c.spawn(t, c.connect(t), 2))
	folder := corpus(t)
	_, err := counting.Count(t.Context(), m, counting.Job{Folder: folder, Suffix: ".go"})
	require.NoError(t, err)
	total, err := counting.Fold(t.Context(), m, 1, 256) // one shard does not fit
	require.NoError(t, err)
	want, _, _ := oracle(t, folder, ".go")
	require.Equal(t, want, total.Counts)
	require.Greater(t, total.Shards, 1)
}

func TestWordCount_reportsABadFolder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	m := counters(t, c.spawn(t, c.connect(t), 2))
	for folder, want := range map[string]string{
		"/does/not/exist":           "/does/not/exist: no such file or directory",
		"relative":                  `"relative": want an absolute path`,
		t.TempDir():                 `ends in ".go"`,
		"/etc/passwd":               "/etc/passwd is not a folder",
		filepath.Join("/", "a\x00"): "invalid argument",
	} {
		_, err := counting.Count(t.Context(), m, counting.Job{Folder: folder, Suffix: ".go"})
		require.ErrorContains(t, err, want)
	}
}
