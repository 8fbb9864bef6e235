package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

func TestWait_aSeenMeshIsAwaitedWhileItsHostsAreSilent(t *testing.T) {
	unseen := waitRecord{Condition: waitEnded}
	seen := waitRecord{Mesh: "demo-1", Condition: waitEnded, Ranks: 2}
	none := &mesh.NotFoundError{What: "mesh", Name: "demo"}
	silent := &mesh.MissingHostsError{Hosts: 2, Silent: []mesh.HostState{{}}}
	broken := errors.New("no bus")
	for name, c := range map[string]struct {
		r      waitRecord
		err    error
		ended  bool
		code   int
		reason string
	}{
		"never seen":                 {unseen, none, false, cli.ExitNotFound, ""},
		"never seen, a silent host":  {unseen, fmt.Errorf("%w; %w", none, silent), false, cli.ExitPartial, ""},
		"seen, now unknown":          {seen, none, true, cli.ExitOK, "demo-1 is gone"},
		"seen, now on a silent host": {seen, fmt.Errorf("%w; %w", none, silent), false, cli.ExitOK, "1 of 2 hosts"},
		"seen, and another error":    {seen, broken, false, cli.ExitFailure, ""},
	} {
		now, why, err := c.r.after(inspect.View{}, nil, c.err)
		require.Equal(t, c.code, cli.ExitCode(err), name)
		require.Contains(t, why, c.reason, name)
		require.Equal(t, c.ended, now.isMet(), name)
		require.Equal(t, c.r.Mesh, now.Mesh, name)
	}
}
