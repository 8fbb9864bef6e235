package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/subjects"
)

func TestStart_holderOfATicketIsNoHost_HOST19(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Server(func(o *embed.Options) { o.Tickets = true }))
	mesh, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	sender := subjects.NewSender(subjects.Proc.Principal("a"), subjects.ProcID{Mesh: mesh}.Process())
	settings := agent.BusSettings{
		URL:   c.Server.URL(),
		Token: ticket.NewKey(c.Server.Token()).Sign(ticket.New(subjects.Space{}, sender)),
	}
	_, err = host.Start(t.Context(), host.Options{Label: "a", Bus: c.Open(t), Settings: settings,
		RunDir: t.TempDir(), Log: testkit.Log(t)})
	require.ErrorContains(t, err, "cannot launch procs with the ticket of a proc")
}
