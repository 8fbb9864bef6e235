package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// suspects counts the peers with a pending question to the servers.
func (b *bench) suspects() (n int) {
	for _, e := range b.effects() {
		if e.Kind == Suspect {
			n++
		}
	}
	return n
}

// receiveHead records a message of the peer.
func (b *bench) receiveHead() { b.t.Helper(); require.NoError(b.t, b.core.OnHead(b.now, b.peer, nil)) }

// answerAbsence is the servers' answer at once.
func (b *bench) answerAbsence(gone, known bool) { b.core.OnAsked(b.now, b.peer, b.now, gone, known) }

func TestSuspect_longAbsentPeerIsReset_LINK13(t *testing.T) {
	for heard, want := range map[bool]time.Duration{false: 500 * time.Millisecond, true: 5 * time.Second} {
		b := newBench(t, Config{})
		if heard {
			b.receiveHead()
		}
		b.post("sent")
		b.leave()
		b.after(2*time.Second - time.Millisecond)
		require.Zero(t, b.suspects())
		b.after(time.Millisecond)
		require.Equal(t, 1, b.suspects())
		b.after(time.Second)
		require.Zero(t, b.suspects(), "once, until they answer")
		b.answerAbsence(true, true)
		b.after(want - time.Millisecond)
		require.Zero(t, b.suspects())
		b.after(time.Millisecond)
		require.Equal(t, 1, b.suspects())
		b.answerAbsence(true, true)
		require.Equal(t, []string{"sent unknown"}, b.fates())
		b.post("later")
		b.leave()
		require.Zero(t, b.suspects(), "the next link has no answer yet")
	}
}

func TestSuspect_presentPeerIsQueriedLessAndLess_LINK13(t *testing.T) {
	for _, known := range []bool{true, false} {
		b := newBench(t, Config{})
		b.post("sent")
		b.leave()
		var at []time.Duration
		for waited := time.Duration(0); waited < 20*time.Second; waited += time.Second {
			b.after(time.Second)
			if b.suspects() > 0 {
				at = append(at, waited+time.Second)
				b.answerAbsence(false, known)
			}
		}
		require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}, at)
	}
}

func TestSuspect_heardPeerIsNotAbsent_LINK13(t *testing.T) {
	b := newBench(t, Config{})
	b.receiveHead()
	b.post("sent")
	b.leave()
	b.after(2 * time.Second)
	require.Equal(t, 1, b.suspects())
	asked := b.now
	b.after(time.Second)
	b.receiveHead()
	b.core.OnAsked(b.now, b.peer, asked, true, true)
	b.after(2*time.Second - time.Millisecond)
	require.Zero(t, b.suspects(), "it was silent before")
	b.after(time.Millisecond)
	require.Equal(t, 1, b.suspects())
	b.answerAbsence(true, true)
	b.after(5 * time.Second)
	require.Equal(t, 1, b.suspects())
	b.answerAbsence(false, true) // it has connected again, and says nothing
	b.after(5 * time.Second)
	b.answerAbsence(true, true)
	b.after(4 * time.Second)
	require.Empty(t, b.fates(), "the time restarts")
}

func TestSuspect_serversAreNotQueriedWhenHintsWork_LINK13(t *testing.T) {
	b := newBench(t, Config{})
	b.receiveHead()
	b.post("sent")
	b.leave()
	b.core.OnHint(b.now, b.peer, 1)
	b.after(4 * time.Second)
	require.Zero(t, b.suspects())
}
