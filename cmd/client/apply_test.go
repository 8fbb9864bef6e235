package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/system"
)

func TestApply_waitContinuesWithTheNextSystemController(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c := testmesh.Start(t, testmesh.InMemory())
		first := c.System(t, "one")
		ref, err := system.Find(t.Context(), c.Proc())
		require.NoError(t, err)
		require.NoError(t, first.Close(testkit.Soon(t)))
		c.System(t, "two")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err = awaitLive(ctx, c.Net, ref, []system.UpsertResponse{{World: "train", Status: system.StatusLive}})
		require.Equal(t, cli.ExitTimeout, cli.ExitCode(err))
		require.ErrorContains(t, err, "train is deleted", "says the next one")
	})
}
