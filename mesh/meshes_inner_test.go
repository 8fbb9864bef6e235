package mesh

import (
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
	ignoreLeft(errs)
	require.Equal(t, []error{nil, silent, nil, nil, nil}, errs)
}
