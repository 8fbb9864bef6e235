package host_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/internal/wire"
)

// A host of the label is known to a gateway, and does not answer.
func TestStart_refusesTheLabelOfASilentHostThatIsConnected_HOST1(t *testing.T) {
	for name, c := range map[string]struct {
		connected, wiretapped bool
		refusal               string
	}{
		"slow":                 {connected: true, refusal: `host label "a" is taken by a-`},
		"slow and wiretapped":  {connected: true, wiretapped: true, refusal: `host label "a" is taken by a-`},
		"ended":                {},
		"ended and wiretapped": {wiretapped: true},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Virtual(t, func(t *testing.T) {
				srv := bustest.Server(t)
				id, others := testproc.HostID(t, "a"), bustest.Open(t, srv)
				list, err := wire.Marshal(agent.HostList{Complete: true, Hosts: []agent.KnownHost{{ID: id}}})
				require.NoError(t, err)
				_, err = others.Control().Subscribe("castnet.v1.default.hb.hosts.*.*", func(m bus.Msg) {
					if err := others.Control().PublishMsg(bus.Msg{Subject: m.Reply, Data: list}); err != nil {
						t.Error(err)
					}
				})
				require.NoError(t, err)
				var heard []string
				if c.connected {
					heard = []string{"castnet.v1.default.hr.any.>", "castnet.v1.default.hr." + id.String() + ".>"}
				}
				if c.wiretapped {
					heard = append(heard, ">")
				}
				for _, subject := range heard {
					_, err := bustest.Open(t, srv).Control().Subscribe(subject, func(bus.Msg) {})
					require.NoError(t, err)
				}
				require.NoError(t, others.Control().Flush(t.Context()))
				registry, err := actor.NewRegistry()
				require.NoError(t, err)
				h, err := host.Start(t.Context(), host.Options{Label: "a", Bus: bustest.Open(t, srv),
					RunDir: t.TempDir(), Local: &host.Local{Registry: registry}})
				if c.refusal != "" {
					require.ErrorContains(t, err, c.refusal)
					return
				}
				require.NoError(t, err)
				require.NoError(t, h.Close(context.Background()))
			})
		})
	}
}
