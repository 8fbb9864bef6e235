package text

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShellQuote_yieldsOneShellWord(t *testing.T) {
	for _, s := range []string{"plain", "demo[host=0,gpu=1]", `{"a":"it's"}`, "", "$HOME `id`", "a b\tc\nd",
		"*", "~", `\`} {
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+ShellQuote(s)).Output()
		require.NoError(t, err)
		require.Equal(t, s, string(out))
	}
	require.Equal(t, "plain-1.2/x", ShellQuote("plain-1.2/x"))
}

func TestShorten_keepsOneLineWithinItsLength(t *testing.T) {
	require.Equal(t, "äöü", Shorten(" äöü\n", 3))
	require.Equal(t, "äö…", Shorten("äöüß", 3))
	require.Equal(t, "one …", Shorten("one\ntwo", 9))
}

func TestAge_readsNaturally(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1500 * time.Millisecond: "1s", 61 * time.Second: "1m", 90 * time.Minute: "1h30m",
		50 * time.Hour: "2d",
	} {
		require.Equal(t, want, Age(d))
	}
}
