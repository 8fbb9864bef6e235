package history_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/integration/faults/history"
)

func create(t *testing.T, dir, name string) *history.Log {
	t.Helper()
	l, err := history.Create(filepath.Join(dir, name))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func TestLog_roundTrips(t *testing.T) {
	dir := t.TempDir()
	left, right := create(t, dir, "left"), create(t, dir, "right")
	want := []history.Record{
		{Kind: history.Sent, At: time.Unix(3, 4), Stream: ab, N: 1},
		{Kind: history.Settled, At: time.Unix(5, 6), Stream: history.Stream{From: ab.From}},
		{Kind: history.Handled, At: time.Unix(7, 8), Stream: ab, N: 1, Note: ab.To},
		{Kind: history.Undeliverable, At: time.Unix(9, 10), Stream: history.Stream{From: "a b", To: "c d"},
			Note: "two lines  and a tab"},
	}
	for i, r := range want {
		if i < 2 {
			require.NoError(t, left.Add(r))
			continue
		}
		if i == 3 {
			r.Stream, r.Note = history.Stream{From: "a\tb", To: "c\nd"}, "two lines\n and a\ttab"
		}
		require.NoError(t, right.Add(r))
	}
	got, err := history.Read(dir)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestLog_concurrentWritersKeepLinesWhole(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, "busy")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := range uint64(500) {
				s := history.Stream{From: "w" + strconv.Itoa(w), To: "x"}
				if err := l.Add(history.Record{Kind: history.Sent, Stream: s, N: n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := history.Read(dir)
	require.NoError(t, err)
	require.Len(t, got, 4000)
}

func TestRead_skipsATornLastLine_HIST1(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, "torn")
	require.NoError(t, l.Add(history.Record{Kind: history.Sent, Stream: ab, N: 1}))
	f, err := os.OpenFile(filepath.Join(dir, "torn.history"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("sent\t12")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	got, err := history.Read(dir)
	require.NoError(t, err)
	require.Len(t, got, 1)
}

func TestRead_refusesMalformedRecords(t *testing.T) {
	for _, line := range []string{"sent\n", "sent\tx\ta\tb\t1\t\n", "sent\t1\ta\tb\t-1\t\n"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.history"), []byte(line), 0o600))
		_, err := history.Read(dir)
		require.ErrorContains(t, err, "bad.history")
	}
}

// writerVariable makes the test binary write to a history until it is killed.
const writerVariable = "CASTNET_HISTORY_WRITER"

func TestLog_survivesAKill_HIST1(t *testing.T) {
	if name := os.Getenv(writerVariable); name != "" {
		l, err := history.Create(name)
		require.NoError(t, err)
		for n := uint64(1); ; n++ {
			require.NoError(t, l.Add(history.Record{Kind: history.Sent, Stream: ab, N: n}))
			_, err := os.Stdout.WriteString(strconv.FormatUint(n, 10) + "\n")
			require.NoError(t, err)
		}
	}
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^TestLog_survivesAKill_HIST1$")
	cmd.Env = append(os.Environ(), writerVariable+"="+filepath.Join(dir, "killed"))
	out, err := os.Create(filepath.Join(dir, "said"))
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	said := func() int {
		data, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		lines := 0
		for _, b := range data {
			if b == '\n' {
				lines++
			}
		}
		return lines
	}
	require.Eventually(t, func() bool { return said() > 1000 }, 20*time.Second, time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	got, err := history.Read(dir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(got), said(), "the reported records are there")
}
