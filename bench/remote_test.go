package main

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/remote"
)

// scripted is a pair with a fixed answer of its sender to every workload. Its usage doubles between
// any two questions.
func scripted(t *testing.T, answer string) *pair {
	t.Helper()
	end := func(part string) *child {
		script := `used=1; while read line; do case "$line" in usage) echo "values ${used}000 ${used}00 ${used}0 7"; used=$((used*2));; *) echo "` + answer + `";; esac; done`
		c, err := startChild(part, exec.Command("sh", "-c", script))
		require.NoError(t, err)
		return c
	}
	p := &pair{sender: end("sender"), receiver: end("receiver")}
	t.Cleanup(func() { require.NoError(t, p.end()) })
	return p
}

func tellOf(t *testing.T, trouble string) between {
	t.Helper()
	w, ok := remote.Find("remote-tell-64B")
	require.True(t, ok)
	return between{Workload: w, row: "a-row", trouble: trouble}
}

func TestBetween_notesTheCostPerMessageInEachProcess(t *testing.T) {
	var notes bytes.Buffer
	b, g := tellOf(t, lost), &ground{settings: settings{shrink: 100_000}, notes: &notes} // 10 messages
	values, err := b.perform(t.Context(), g, oursName, scripted(t, "values 5 0"))
	require.NoError(t, err)
	require.Equal(t, []float64{5}, values)
	require.Equal(t, "a-row: ours, each: sender 100 ns CPU, 10.0 B written in 1.000 calls, at most 7 MiB; "+
		"receiver 100 ns CPU, 10.0 B written in 1.000 calls, at most 7 MiB\n", notes.String())
}

func TestBetween_onlyTheBaseMayLoseMessages(t *testing.T) {
	var notes bytes.Buffer
	b, g := tellOf(t, lost), &ground{settings: settings{shrink: 100_000}, notes: &notes}
	values, err := b.perform(t.Context(), g, rawName, scripted(t, "values 5 3"))
	require.NoError(t, err)
	require.Equal(t, []float64{5}, values)
	require.Contains(t, notes.String(), "a-row: nats: 3 messages were lost\n")
	for _, name := range []string{oursName, "a@v1"} {
		_, err = b.perform(t.Context(), g, name, scripted(t, "values 5 3"))
		require.EqualError(t, err, "3 messages were lost", name)
	}
}

func TestBetween_burstHasTwoValues(t *testing.T) {
	g := &ground{settings: settings{shrink: 1}, notes: io.Discard}
	_, err := tellOf(t, lost).perform(t.Context(), g, oursName, scripted(t, "values 5"))
	require.EqualError(t, err, "remote-tell-64B: want 2 values, got [5]")
	values, err := tellOf(t, "").perform(t.Context(), g, oursName, scripted(t, "values 5 6 7"))
	require.NoError(t, err)
	require.Equal(t, []float64{5, 6, 7}, values)
}

func TestPair_heldReceiverAnswersAfterRelease(t *testing.T) {
	p := scripted(t, "values 5")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	said := make(chan error, 1)
	require.NoError(t, p.hold(func() error {
		go func() {
			_, err := p.receiver.ask(ctx, remote.UsageRequest)
			said <- err
		}()
		select {
		case err := <-said:
			t.Errorf("it answered: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		return nil
	}))
	require.NoError(t, <-said)
}

// An interrupt comes while a receiver is stopped.
func TestPair_stoppedReceiverEndsWithTheRun_BENCH5(t *testing.T) {
	s, err := parse([]string{"-only", "^flood-rss$", "-repeats", "1000", "-shrink", "60"}, io.Discard)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = run(ctx, s, io.Discard, onText{"nats: the receiver reads nothing", cancel})
	require.ErrorIs(t, err, context.Canceled)
	requireNoStrays(t)
}
