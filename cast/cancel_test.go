package cast_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
)

// A canceled call ends the handlers' contexts, in each process and in its own.
func TestCast_cancelEndsHandlerContexts_CAST4(t *testing.T) {
	for name, perProcess := range map[string]int{"a process each": 1, "four in a process": 4} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, shape.Of("host", 2).With("gpu", 4), 4, perProcess)
			beside := c.members
			beside.via = c.procs[1]
			for from, to := range map[string]members{"a client": c.members, "a member": beside} {
				for verb, ask := range map[string]func(context.Context) error{
					"reduce": func(ctx context.Context) error {
						_, err := cast.Reduce(ctx, to, until, actor.None{}, cast.Sum[int]())
						return err
					},
					"gather": func(ctx context.Context) error {
						_, err := cast.Gather(ctx, to, until, actor.None{})
						return err
					},
					"stream": func(ctx context.Context) (err error) {
						for _, r := range cast.Stream(ctx, to, until, actor.None{}) {
							err = r.Err
						}
						return err
					},
				} {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					gaveUp := make(chan error, 1)
					go func() { gaveUp <- ask(ctx) }()
					require.Len(t, c.Take(t, 8), 8, "%s from %s: all handlers run", verb, from)
					cancel()
					require.ErrorIs(t, <-gaveUp, context.Canceled)
					require.Len(t, c.Take(t, 8), 8, "%s from %s: all handlers have their context ended", verb, from)
				}
			}
		})
	}
}

func TestStream_earlyReturnEndsHandlerContexts_CAST4(t *testing.T) {
	c := newCrowd(t, shape.Of("host", 2).With("gpu", 4), 4, 2)
	for range cast.Stream(t.Context(), mixed{c.members}, until, actor.None{}) { // the dead come first
		require.Len(t, c.Take(t, 6), 6, "all handlers run")
		break
	}
	for _, e := range c.Take(t, 6) {
		require.Equal(t, 2, e.n, "rank %d has its context ended", e.rank)
	}
}

// mixed is members with one dead process, so a stream yields a result at once.
type mixed struct{ members }

func (m mixed) Target() (cast.Target, error) {
	m.via.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: string(actor.Failed),
		Mesh: m.place.Mesh.String(),
		Rank: 6, Reason: "gone"})
	return m.members.Target()
}
