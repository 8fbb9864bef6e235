package actor_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
)

func TestContextSpawn_reportsTheConstructorsResultOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		makes made
		want  string // "": it runs
		after time.Duration
	}{
		"runs": {func(*actor.Context) (*Box, error) { return &Box{}, nil }, "", 0},
		"slow": {func(*actor.Context) (*Box, error) { time.Sleep(29 * time.Second); return &Box{}, nil }, "",
			29 * time.Second},
		"fails": {func(*actor.Context) (*Box, error) { return nil, errors.New("cannot") },
			"actor type pick: cannot", 0},
		"panics": {func(*actor.Context) (*Box, error) { panic("cannot") }, "panicked: cannot", 0},
		"hangs": {func(ctx *actor.Context) (*Box, error) {
			<-ctx.Done()
			return nil, errors.New("late")
		}, "its constructor did not return within 30s", 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNursery(t)
				told, began := make(chan error, 2), time.Now()
				var took time.Duration
				_, err := bid.Call(t.Context(), n.parent, func(ctx *actor.Context) error {
					return ctx.Spawn(actor.SpawnSpec{Type: pick.Name(), Name: "child", Params: c.makes},
						func(_ *actor.Context, err error) {
							took = time.Since(began)
							told <- err
						})
				})
				require.NoError(t, err)
				time.Sleep(settled)
				err = <-told
				require.Equal(t, c.after, took)
				require.Empty(t, told)
				require.Empty(t, n.seen, "only the creator gets the error")
				if c.want == "" {
					require.NoError(t, err)
					_, known := n.p.Actor("child")
					require.True(t, known)
					return
				}
				require.ErrorContains(t, err, c.want)
				_, err = n.p.Spawn(t.Context(),
					actor.SpawnSpec{Type: pick.Name(), Name: "child",
						Params: made(func(*actor.Context) (*Box, error) { return &Box{}, nil })})
				require.NoError(t, err, "its name is free again")
			})
		})
	}
}

func TestContextSpawn_reportsAnUnknownTypeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNursery(t)
		_, err := bid.Call(t.Context(), n.parent, func(ctx *actor.Context) error {
			return ctx.Spawn(actor.SpawnSpec{Type: "nothing", Name: "child"},
				func(*actor.Context, error) { t.Error("told") })
		})
		require.ErrorContains(t, err, `"nothing"`)
	})
}
