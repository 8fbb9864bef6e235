package mesh

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
)

func TestMeshes_ignoreHostsThatLeftAfterTheSearch(t *testing.T) {
	silent := errors.New("no answer")
	errs := []error{nil, silent}
	for _, gone := range []error{actor.ErrNoProc, actor.ErrProcDead, actor.ErrStopped} {
		errs = append(errs, fmt.Errorf("get: %w", gone))
	}
	ctx, end := context.WithCancelCause(t.Context())
	n := &Net{ctx: ctx}
	require.NoError(t, n.ignoreLeft(errs))
	require.Equal(t, []error{nil, silent, nil, nil, nil}, errs)
	end(errNetClosed)
	require.ErrorIs(t, n.ignoreLeft([]error{actor.ErrStopped}), errNetClosed, "no host has stopped")
}
