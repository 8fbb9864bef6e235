package launch

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// inheritPipes plays the launcher within this process: in owns the read ends.
func inheritPipes(t *testing.T) (in *Inherited, payload, lifeline *os.File) {
	var fds [2]int
	var writers [2]*os.File
	for i := range fds {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		fds[i], err = unix.Dup(int(r.Fd()))
		require.NoError(t, err)
		require.NoError(t, r.Close())
		t.Cleanup(func() { _ = w.Close() })
		writers[i] = w
	}
	in, launched, err := FromEnv(func(string) string { return fmt.Sprintf("%d,%d", fds[0], fds[1]) })
	require.NoError(t, err)
	require.True(t, launched)
	for _, fd := range fds {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
		require.Equal(t, unix.FD_CLOEXEC, flags)
	}
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return in, writers[0], writers[1]
}

func TestFromEnv_withoutTheVariableIsNotLaunched(t *testing.T) {
	in, launched, err := FromEnv(func(string) string { return "" })
	require.NoError(t, err)
	require.False(t, launched)
	require.Nil(t, in)
}

func TestFromEnv_hidesTheVariable(t *testing.T) {
	t.Setenv(EnvVar, "bad")
	_, _, err := FromEnv(os.Getenv)
	require.ErrorContains(t, err, `CASTNET_PROC="bad": expected two descriptors, such as "3,4"`)
	_, set := os.LookupEnv(EnvVar)
	require.False(t, set)
}

func TestFromEnv_refusesForeignDescriptors(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	for value, want := range map[string]string{
		"3,3":                                   "two different descriptors of 3 or above",
		"0,1":                                   "two different descriptors of 3 or above",
		"3":                                     "expected two descriptors",
		"3,4,5":                                 "expected two descriptors",
		"03,4":                                  "expected two descriptors",
		"-3,4":                                  "expected two descriptors",
		"99999999999999999999,4":                "expected two descriptors",
		fmt.Sprintf("%d,60000", r.Fd()):         "descriptor 60000: bad file descriptor",
		fmt.Sprintf("%d,%d", file.Fd(), r.Fd()): "is not a pipe",
		fmt.Sprintf("%d,%d", r.Fd(), int(file.Fd())): "is not a pipe",
	} {
		_, launched, err := FromEnv(func(string) string { return value })
		require.ErrorContains(t, err, want, value)
		require.False(t, launched)
	}
	_, err = file.WriteString("still ours")
	require.NoError(t, err)
}

func TestPayload_isReadOnce(t *testing.T) {
	in, w, _ := inheritPipes(t)
	_, err := w.WriteString("boot")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	data, err := in.Payload()
	require.NoError(t, err)
	require.Equal(t, "boot", string(data))
	_, err = in.Payload()
	require.ErrorIs(t, err, ErrPayloadTaken)
}

func TestPayload_readTimesOut_LCH6(t *testing.T) {
	in, w, _ := inheritPipes(t)
	_, err := w.WriteString("half")
	require.NoError(t, err)
	_, err = in.readPayload(time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.ErrorContains(t, err, "after 4 bytes")
}

func TestPayload_refusesOversizedInput_LCH6(t *testing.T) {
	in, w, _ := inheritPipes(t)
	go func() {
		_, _ = w.WriteString(strings.Repeat("x", MaxPayload+1))
		_ = w.Close()
	}()
	_, err := in.Payload()
	require.ErrorIs(t, err, ErrPayloadTooLarge)
}

func TestLifeline_endsWithTheLauncherNotWithClose(t *testing.T) {
	in, _, w := inheritPipes(t)
	select {
	case <-in.Lifeline():
		require.Fail(t, "the launcher is still there")
	default:
	}
	require.NoError(t, w.Close())
	select {
	case <-in.Lifeline():
	case <-time.After(patience):
		require.Fail(t, "the end of the lifeline was not noticed")
	}

	let, _, _ := inheritPipes(t)
	require.NoError(t, let.Close())
	require.NoError(t, let.Close())
	select {
	case <-let.Lifeline():
		require.Fail(t, "Close does not wait for the launcher")
	default:
	}
	_, err := let.Payload()
	require.ErrorIs(t, err, ErrPayloadTaken)
}

func FuzzParseAnnouncement(f *testing.F) {
	for _, seed := range []string{"3,4", "4,3", "3,3", "", "3,", "0,4", "3,4\n", "99999,4"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		payload, lifeline, err := parseAnnouncement(value)
		if err == nil {
			require.Equal(t, value, fmt.Sprintf("%d,%d", payload, lifeline))
			require.GreaterOrEqual(t, min(payload, lifeline), payloadFD)
			require.NotEqual(t, payload, lifeline)
		}
	})
}
