package host_test

import (
	"testing"
	"time"

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
	master := ticket.NewMaster(c.Server.Token())
	of := func(p subjects.Principal) ticket.Key { return master.Issue(subjects.Space{}, p, time.Time{}) }
	text, _ := of(subjects.Host.Principal("a")).Sign(subjects.User{Principal: subjects.Proc.Principal("a"),
		Process: subjects.ProcID{Mesh: mesh}.Process()})
	for token, want := range map[string]string{
		text:                                    "cannot launch procs with the ticket of a proc",
		of(subjects.Host.Principal("b")).Text(): "cannot launch procs of host a with the key of h-b",
		of(subjects.Program.Principal("a")).Text(): "cannot launch procs of host a with the key of u-a",
	} {
		_, err = host.Start(t.Context(), host.Options{Label: "a", Bus: c.Open(t),
			Settings: agent.BusSettings{URL: c.Server.URL(), Token: token}, RunDir: t.TempDir(), Log: testkit.Log(t)})
		require.ErrorContains(t, err, want)
	}
}
