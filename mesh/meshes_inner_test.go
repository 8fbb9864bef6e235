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
	errs := []error{nil, fmt.Errorf("get: %w", actor.ErrNoProc), silent}
	ignoreLeft(errs)
	require.Equal(t, []error{nil, nil, silent}, errs)
}
