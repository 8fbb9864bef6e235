package logfile

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// followed is a run of Follow in a bubble, where polling costs no time: its lines so far, its end,
// and its file.
type followed struct {
	file *os.File
	got  []string
	done chan struct{}
	stop context.CancelFunc
	err  chan error
}

func follow(t *testing.T, text string, from int64) *followed {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	ctx, stop := context.WithCancel(t.Context())
	f := &followed{file: file, done: make(chan struct{}), stop: stop, err: make(chan error, 1)}
	f.write(t, text)
	go func() {
		out := Output{Stdout: {Path: path, Start: from}}
		f.err <- out.Follow(ctx, f.done, Handler{
			Line: func(_ Stream, line []byte) { f.got = append(f.got, string(line)) },
		})
	}()
	f.poll()
	return f
}

func (f *followed) write(t *testing.T, text string) {
	_, err := f.file.WriteString(text)
	require.NoError(t, err)
}

// poll lets the longest polling interval pass.
func (f *followed) poll() {
	synctest.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), maxFollowInterval)
	defer cancel()
	<-ctx.Done()
	synctest.Wait()
}

func TestFollow_deliversCompleteLines_LOG2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, "old\nhalf", 0)
		require.Equal(t, []string{"old"}, f.got)
		f.write(t, " done\nnext")
		f.poll()
		require.Equal(t, []string{"old", "half done"}, f.got)
		f.write(t, " line")
		close(f.done)
		require.NoError(t, <-f.err)
		require.Equal(t, []string{"old", "half done", "next line"}, f.got)
	})
}

func TestFollow_endsWithItsContextAndKeepsThePartialLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, "skipped\nfirst\npart", 8)
		f.stop()
		require.ErrorIs(t, <-f.err, context.Canceled)
		require.Equal(t, []string{"first", "part"}, f.got)
	})
}

func TestFollow_restartsWhenTheFileIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, "a long first line\nhalf", 0)
		require.NoError(t, f.file.Truncate(0))
		f.write(t, "new\n")
		f.poll()
		close(f.done)
		require.NoError(t, <-f.err)
		require.Equal(t, []string{"a long first line", "half", "new"}, f.got)
	})
}

func TestFollow_readsABacklogInChunks_LOG2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := "0123456789abcdef\n"
		text := ""
		for len(text) <= 3*followChunkSize {
			text += line
		}
		f := follow(t, text, 0)
		close(f.done)
		require.NoError(t, <-f.err)
		require.Equal(t, linesOracle(text), f.got)
	})
}

func TestFollow_namesAMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent")
	err := Output{Stdout: {Path: path}}.Follow(t.Context(), nil, Handler{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, path)
}

func TestTail_ofAMissingFileIsEmpty(t *testing.T) {
	require.Empty(t, File{Path: filepath.Join(t.TempDir(), "absent")}.Tail(5))
}
