package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestKey_gatewayDeadlineLimitsRequests(t *testing.T) {
	s := newSystem(t)
	require.NoError(t, s.gateway.Close(t.Context()))
	cfg := &config.Config{}
	require.NoError(t, config.GatewayMaxTimeout.Set(cfg, 2*time.Minute))
	g, err := Start(t.Context(), Options{Label: "b",
		Bus: &bus.Options{URL: s.cluster.Server.URL(), Token: "secret"}, Config: cfg})
	require.NoError(t, err)
	testkit.Close(t, g.Close)
	m := s.ask("get", "", headerTTL, "2m1s")
	require.Equal(t, "400", m.Header.Get("Nats-Service-Error-Code"))
	require.Contains(t, string(m.Data), "at most 2m0s")
	require.Equal(t, "404", s.ask("get", "", headerTTL, "2m").Header.Get("Nats-Service-Error-Code"),
		"there is no such mesh")
}
