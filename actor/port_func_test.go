package actor_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
)

func TestOpenPortFunc_keepsOrderAndReturnsRefusals(t *testing.T) {
	a, _ := two(t)
	var got []int
	ended := make(chan error, 1)
	to, closePort := actor.OpenPortFunc(a, func(n int) error {
		if n < 0 {
			return errors.New("too little")
		}
		got = append(got, n)
		return nil
	}, func(why error) { ended <- why })
	for n := range 5000 { // more than a port holds
		require.NoError(t, to.Send(t.Context(), n))
	}
	require.ErrorContains(t, to.Send(t.Context(), -1), "too little")
	require.Len(t, got, 5000)
	require.IsIncreasing(t, got)
	closePort()
	require.ErrorIs(t, to.Send(t.Context(), 1), actor.ErrPortGone)
	require.Empty(t, ended, "a close by its owner is not reported")

	_, _ = actor.OpenPortFunc(a, func(int) error { return nil }, func(why error) { ended <- why })
	require.NoError(t, a.Close(t.Context()))
	require.Error(t, <-ended)
}
