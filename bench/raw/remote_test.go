package raw_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/local/lines"
	"github.com/castnet-io/castnet/bench/remote"
)

// The module bench/remote requires only bench/local, and so has no tests of its own. These hold its
// promises, on a library without a second process.

// fake is both ends, with messages that are refused, lost or counted twice, and wrong answers.
type fake struct {
	refuses, loses, doubles int // so many of the first
	deaf                    int // questions that are not answered
	answers                 []byte
	stuck                   bool // a flush ends with its context only
	count                   int
	closed                  bool
}

var errRefused, errNobody = errors.New("no room"), errors.New("nobody is there")

func (f *fake) library() remote.Library {
	return remote.Library{
		Receive: func(context.Context) (remote.Receiver, error) { return f, nil },
		Send:    func(context.Context, string) (remote.Sender, error) { return f, nil },
	}
}

func (f *fake) Address() string { return "here" }

func (f *fake) Tell(context.Context, []byte) error {
	switch {
	case f.refuses > 0:
		f.refuses--
		return errRefused
	case f.loses > 0:
		f.loses--
	case f.doubles > 0:
		f.doubles--
		f.count += 2
	default:
		f.count++
	}
	return nil
}

func (f *fake) Flush(ctx context.Context) error {
	if f.stuck {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

func (f *fake) Count(context.Context) (int, error) { return f.count, nil }

func (f *fake) Ask(_ context.Context, m []byte) ([]byte, error) {
	if f.deaf > 0 {
		f.deaf--
		return nil, errNobody
	}
	if len(m) > 0 && f.answers != nil {
		return f.answers, nil
	}
	return m, nil
}

func (f *fake) Close(context.Context) error {
	f.closed = true
	return nil
}

// do makes a sender send n of a workload; without a workload it sends nothing.
func do(t *testing.T, f *fake, workload string, n int) ([]float64, error) {
	t.Helper()
	in, feed := io.Pipe()
	said, out := io.Pipe()
	result := make(chan error, 1)
	go func() {
		result <- remote.Play([]string{remote.SendPart, "there"}, in, out, f.library())
		out.Close()
	}()
	line := func() string {
		buf := make([]byte, 1000)
		n, err := said.Read(buf)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(buf[:n]), "\n"))
		return strings.TrimSuffix(string(buf[:n]), "\n")
	}
	require.Equal(t, "ready", line())
	_, err := io.WriteString(feed, lines.Request(workload, n)+"\n")
	require.NoError(t, err)
	values, failed := lines.Parse(line())
	feed.Close()
	require.NoError(t, <-result)
	require.True(t, f.closed)
	return values, failed
}

func TestSend_runsEveryWorkload(t *testing.T) {
	for _, w := range remote.Workloads() {
		values, err := do(t, &fake{}, w.Name, 128)
		require.NoError(t, err, w.Name)
		require.NotEmpty(t, values, w.Name)
	}
}

func TestSend_lostMessagesDoNotCountInTheRate_REM3(t *testing.T) {
	for _, name := range []string{"remote-tell-64B", "remote-tell-1KiB"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			values, err := do(t, &fake{loses: 7}, name, 100)
			require.NoError(t, err)
			require.Len(t, values, 2)
			require.InDelta(t, 7, values[1], 0)
			require.Less(t, time.Since(start), local.Patience, "REM-3")
		})
	}
}

func TestSend_burstCountsLostAndRefusedSeparately_REM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values, err := do(t, &fake{loses: 7, refuses: 5}, "route-burst", 100)
		require.NoError(t, err)
		require.Equal(t, []float64{7, 5}, values)
	})
}

func TestTell_refusedMessageIsAnError(t *testing.T) {
	_, err := do(t, &fake{refuses: 5}, "remote-tell-64B", 100)
	require.EqualError(t, err, "5 of 100 messages were refused, the first with: no room")
}

func TestTell_duplicateMessageIsAnError(t *testing.T) {
	_, err := do(t, &fake{doubles: 1}, "remote-tell-64B", 100)
	require.EqualError(t, err, "101 messages arrived, and 100 were sent")
}

func TestTell_entirelyLostBurstIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := do(t, &fake{loses: 100}, "remote-tell-64B", 100)
		require.EqualError(t, err, "none of 100 messages arrived")
	})
}

func TestAsk_wrongAnswerIsAnError(t *testing.T) {
	for _, name := range []string{"remote-ask", "remote-ask-64"} {
		_, err := do(t, &fake{answers: []byte("what?")}, name, 100)
		require.EqualError(t, err, "asked with 64 bytes and answered with 5", name)
	}
}

func TestSend_awaitsAReceiversFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{deaf: 3}
		_, err := do(t, f, "remote-ask", 10)
		require.NoError(t, err)
		require.Zero(t, f.deaf)
	})
}

func TestSend_silentReceiverIsAnErrorInTime_REM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &fake{deaf: 1 << 30}
		err := remote.Play([]string{remote.SendPart, "there"}, strings.NewReader(""), io.Discard, f.library())
		require.EqualError(t, err, "meet the receiver at there: nobody is there")
		require.Equal(t, local.Patience, time.Since(start))
		require.True(t, f.closed)
	})
}

func TestSend_endlessBurstIsAnErrorInTime_REM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := do(t, &fake{stuck: true}, "remote-tell-64B", 100)
		require.EqualError(t, err, "flush: not done within 30s")
		require.Equal(t, local.Patience, time.Since(start))
	})
}

func TestReceive_endOfInputEndsAWaitAtOnce_REM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := io.Pipe()
		var out strings.Builder
		result := make(chan error, 1)
		go func() {
			result <- remote.Play([]string{remote.SendPart, "there"}, in, &out, (&fake{stuck: true}).library())
		}()
		_, err := io.WriteString(feed, lines.Request("remote-tell-64B", 10)+"\n")
		require.NoError(t, err)
		synctest.Wait() // it flushes
		start := time.Now()
		feed.Close()
		require.NoError(t, <-result)
		require.Zero(t, time.Since(start))
		require.Contains(t, out.String(), "nobody waits for it any more")
	})
}

func TestReceive_printsItsAddressAndUsage(t *testing.T) {
	f := &fake{}
	var out strings.Builder
	in := strings.NewReader(remote.UsageRequest + "\nremote-ask 5\n")
	require.NoError(t, remote.Play([]string{remote.ReceivePart}, in, &out, f.library()))
	require.True(t, f.closed)
	said := strings.Split(out.String(), "\n")
	require.Equal(t, "here", said[0])
	u, err := remote.ParseUsage(said[1])
	require.NoError(t, err)
	require.Positive(t, u.CPU)
	_, err = lines.Parse(said[2])
	require.EqualError(t, err, `request "remote-ask 5": want usage`)
}

func TestSend_refusesAnUnknownWorkload(t *testing.T) {
	_, err := do(t, &fake{}, "nothing", 5)
	require.EqualError(t, err, `request "nothing 5": there is no workload "nothing"`)
	_, err = do(t, &fake{}, "remote-ask", 0)
	require.EqualError(t, err, `request "remote-ask 0": want how much to do, a number from 1, after the name`)
}

func TestPlay_refusesAnUnknownRole(t *testing.T) {
	for _, args := range [][]string{nil, {"listen"}, {remote.ReceivePart, "there"}, {remote.SendPart}} {
		err := remote.Play(args, strings.NewReader(""), io.Discard, (&fake{}).library())
		require.ErrorContains(t, err, "want receive, or send and an address")
	}
}

func TestParseUsage_refusesMalformedInput(t *testing.T) {
	_, err := remote.ParseUsage("values 1 2")
	require.EqualError(t, err, `usage "values 1 2": want 4 values`)
	_, err = remote.ParseUsage(`error "no"`)
	require.EqualError(t, err, "no")
}
