package config_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/wire"
)

func TestSnapshot_holdsOverridesAndRoundTrips_CFG5(t *testing.T) {
	var c config.Config
	require.NoError(t, c.LoadEnv(vars{"CASTNET_PROC_READY_TIMEOUT": "30s",
		"CASTNET_BUS_CONNECT_TIMEOUT": "9s"}.get))
	_, err := c.Push(config.Snapshot{Values: map[string]string{"proc.spawn-progress-timeout": "1m30s"}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"proc.ready-timeout": "30s", "proc.spawn-progress-timeout": "1m30s"},
		c.Snapshot().Values)
}

func TestPush_ignoresAndCountsUnknownKeys_CFG5(t *testing.T) {
	var c config.Config
	ignored, err := c.Push(config.Snapshot{Values: map[string]string{
		"of.tomorrow": "?", "bus.connect-timeout": "soon", "proc.ready-timeout": "1m",
	}})
	require.NoError(t, err)
	require.Equal(t, 2, ignored, "one of a later build, and a local one")
	require.Equal(t, map[string]string{"proc.ready-timeout": "1m"}, c.Snapshot().Values)
	require.Equal(t, 2*time.Second, config.BusConnectTimeout.Get(&c))
}

func TestPush_isAllOrNothing_CFG2_CFG5(t *testing.T) {
	var c config.Config
	_, err := c.Push(config.Snapshot{Values: map[string]string{"attach.timeout": "3s"}})
	require.NoError(t, err)

	many := map[string]string{}
	for i := range 513 {
		many[fmt.Sprint("key.", i)] = "1"
	}
	long := strings.Repeat("k", 2000)
	for want, values := range map[string]map[string]string{
		`pushed by a client: proc.ready-timeout="1x": want a duration such as 30s`:                     {"proc.ready-timeout": "1x", "delivery.timeout": "1m"},
		`pushed by a client: terminate.concurrency="1000": want 1 to 256`:                              {"terminate.concurrency": "1000"},
		`pushed by a client: 513 keys: want at most 512`:                                               many,
		`pushed by a client: key "` + long[:80] + `…" of 2000 bytes: want at most 128`:                 {long: "1"},
		`pushed by a client: the value of "of.tomorrow" has 2000 bytes: want at most 1024`:             {"of.tomorrow": long},
		`pushed by a client: proc.log-level="": want one of trace, debug, info, warn, error`:           {"proc.log-level": ""},
		`pushed by a client: delivery.max-message="9223372036854775808": want a size such as 64MiB`:    {"delivery.max-message": "9223372036854775808"},
		`pushed by a client: delivery.max-message="9223372036854775807KiB": want a size such as 64MiB`: {"delivery.max-message": "9223372036854775807KiB"},
	} {
		_, err := c.Push(config.Snapshot{Values: values})
		require.EqualError(t, err, want)
		require.Equal(t, map[string]string{"attach.timeout": "3s"}, c.Snapshot().Values)
	}
	_, err = c.Push(config.Snapshot{})
	require.NoError(t, err)
	require.Empty(t, c.Snapshot().Values, "the layer is replaced as a whole")
}

// Both cross processes: their forms are append-only.
func TestMessages_matchTheGoldenVectors(t *testing.T) {
	for _, row := range []struct {
		message, back any
		cbor, json    string
	}{
		{
			config.Snapshot{Values: map[string]string{"proc.ready-timeout": "2m", "attach.timeout": "1m"}},
			&config.Snapshot{},
			"a101a26e6174746163682e74696d656f757462316d7270726f632e72656164792d74696d656f757462326d",
			`{"values":{"attach.timeout":"1m","proc.ready-timeout":"2m"}}`,
		},
		{config.Snapshot{}, &config.Snapshot{}, "a0", "{}"},
		{
			config.Entry{Name: "a.b", Value: "2m", Default: "1m", Layer: config.LayerEnv, Source: "CASTNET_A_B",
				Changed: true, Env: "CASTNET_A_B", Local: true, Doc: "d"},
			&config.Entry{},
			"a90163612e620262326d0362316d046b656e7669726f6e6d656e74056b434153544e45545f415f4206f5076b434153544e45545f415f4208f5096164",
			`{"name":"a.b","value":"2m","default":"1m","layer":"environment","source":"CASTNET_A_B","changed":true,"env":"CASTNET_A_B","local":true,"doc":"d"}`,
		},
	} {
		b, err := wire.Marshal(row.message)
		require.NoError(t, err)
		require.Equal(t, row.cbor, hex.EncodeToString(b))
		require.NoError(t, wire.Unmarshal(b, row.back))
		again, err := wire.Marshal(row.back)
		require.NoError(t, err)
		require.Equal(t, b, again)
		j, err := json.Marshal(row.message)
		require.NoError(t, err)
		require.Equal(t, row.json, string(j))
	}
}
