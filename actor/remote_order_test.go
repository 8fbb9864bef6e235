package actor_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestLink_keepsOrderForEveryMessageSize_DEL3(t *testing.T) {
	t.Parallel()
	const senders, receivers = 2, 2
	sizes := []int{0, 100, 5_000, 40_000, 300_000, 0, 3 << 19, 10, 200_000, 1}
	rounds := len(sizes) // each pair sends each size once
	a, b := pair(t)
	var refs []actor.Ref[*Ledger]
	var books []*pages
	for r := range receivers {
		book := newPages()
		ref, err := actor.Spawn(t.Context(), b, ledger, fmt.Sprint("ledger", r), book)
		require.NoError(t, err)
		refs, books = append(refs, actor.RefOf[*Ledger](ref.ID())), append(books, book)
	}
	done := make(chan error, senders)
	for s := range senders {
		from, err := actor.Spawn(t.Context(), a, mailer, fmt.Sprint("mailer", s),
			func(*actor.Context, actor.DeadLetter) error { return nil })
		require.NoError(t, err)
		go func() {
			done <- second(mail.Call(testkit.Soon(t), from, func(ctx *actor.Context) error {
				for i := range rounds {
					for r, ref := range refs {
						e := entry{By: fmt.Sprint(s), N: i, Pad: make([]byte, sizes[(i+s+r)%len(sizes)])}
						if err := sendSomehow(ctx, ref, e, i+r); err != nil {
							return err
						}
					}
				}
				return nil
			}))
		}()
	}
	for range senders {
		require.NoError(t, testkit.Next(t, done))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	for _, book := range books {
		testkit.Until(t, "all are handled", func() bool { return book.count() == rounds*senders })
		book.inOrder(t)
	}
	require.Zero(t, a.Stats().Bounced)
}

// sendSomehow sends by Send, SendWait or Call.
func sendSomehow(ctx *actor.Context, to actor.Ref[*Ledger], e entry, way int) error {
	switch way % 5 {
	case 0:
		return second(enter.Call(ctx, to, e))
	case 1, 2:
		if err := enter.Send(ctx, to, e); !errors.Is(err, actor.ErrBacklog) {
			return err
		}
	}
	return enter.SendWait(ctx, to, e)
}

func TestCall_carriesLargeMessagesAndReplies_LINK9(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	ra, rb := spawn(t, a), spawn(t, b)
	done := make(chan error, 2)
	for from, to := range map[*actor.Proc]actor.Ref[*Box]{a: rb, b: ra} {
		go func() {
			for _, size := range []int{4 << 20, 3 << 19} {
				body, err := big.Call(testkit.Soon(t), to.Via(from), size)
				if err == nil && len(body) != size {
					err = fmt.Errorf("%d bytes", len(body))
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	require.NoError(t, <-done) // the calls have deadlines
	require.NoError(t, <-done)
}
