package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cast"
)

func TestRollout_knowsWhoWasNotAsked(t *testing.T) {
	bad := errors.New("bad")
	for name, row := range map[string]struct {
		throttle cast.Throttle
		batches  [][]int
		answers  []error
		asked    int
	}{
		"nothing stops it":                 {cast.Throttle{}, [][]int{{0, 1}, {2}}, []error{bad, bad, bad}, 3},
		"a canary that answers well":       {cast.Throttle{Canary: true}, [][]int{{0}, {1, 2}}, []error{nil, bad, bad}, 3},
		"a canary that does not":           {cast.Throttle{Canary: true}, [][]int{{0}, {1, 2}}, []error{bad, bad, bad}, 1},
		"a batch is finished all the same": {cast.Throttle{StopAfter: 1}, [][]int{{0, 1}, {2}}, []error{bad, nil, bad}, 2},
		"failures of all batches count":    {cast.Throttle{StopAfter: 2}, [][]int{{0}, {1}, {2}}, []error{bad, bad, bad}, 2},
		"too few":                          {cast.Throttle{StopAfter: 2}, [][]int{{0}, {1}, {2}}, []error{bad, nil, bad}, 3},
	} {
		r, asked := newRollout(row.throttle, row.batches), 0
		for _, err := range row.answers {
			if _, skipped := r.take(t.Context(), err); !skipped {
				asked++
			}
		}
		require.Equal(t, row.asked, asked, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRollout(cast.Throttle{}, [][]int{{0}, {1}})
	_, first := r.take(ctx, bad)
	_, second := r.take(ctx, bad)
	require.Equal(t, []bool{false, true}, []bool{first, second}, "nobody is asked for a caller that has gone")
}
