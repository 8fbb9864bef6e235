package config_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/config"
)

func TestGet_returnsTheDefaultWithoutAnyLayer(t *testing.T) {
	var c config.Config
	for _, c := range []*config.Config{&c, nil} {
		require.Equal(t, 30*time.Second, config.ProcSpawnProgressTimeout.Get(c))
		require.Equal(t, 16, config.TerminateConcurrency.Get(c))
		require.Equal(t, config.Size(64<<20), config.DeliveryMaxMessage.Get(c))
		require.True(t, config.ProcDeathSignal.Get(c))
		require.Equal(t, "warn", config.ProcLogLevel.Get(c))
		require.Equal(t, config.Snapshot{}, c.Snapshot())
		require.Empty(t, c.Conflicts())
	}
}

// A client overrides two keys and the variables are not set; an actor of the proc sets one of them
// there.
func TestPush_procOverridesItsClientAtRunTime_CFG1(t *testing.T) {
	var client, proc config.Config
	require.NoError(t, client.LoadEnv(none))
	require.NoError(t, config.ProcReadyTimeout.Override(&client, 2*time.Minute))
	require.NoError(t, config.DeliveryTimeout.Override(&client, time.Minute))

	ignored, err := proc.Push(client.Snapshot())
	require.NoError(t, err)
	require.Zero(t, ignored)
	require.NoError(t, config.ProcReadyTimeout.Set(&proc, 3*time.Minute))

	require.Equal(t, 3*time.Minute, config.ProcReadyTimeout.Get(&proc))
	require.Equal(t, time.Minute, config.DeliveryTimeout.Get(&proc))
	require.Equal(t, map[string]string{"proc.ready-timeout": "3m", "delivery.timeout": "1m"},
		proc.Snapshot().Values)

	_, err = proc.Push(client.Snapshot())
	require.NoError(t, err)
	require.Equal(t, 3*time.Minute, config.ProcReadyTimeout.Get(&proc), "a second push changes nothing")
}

func TestSet_environmentTakesPrecedence_CFG1(t *testing.T) {
	var c config.Config
	require.NoError(t, c.LoadEnv(vars{"CASTNET_PROC_READY_TIMEOUT": "1m"}.get))
	require.NoError(t, config.ProcReadyTimeout.Set(&c, time.Hour))
	require.Equal(t, time.Minute, config.ProcReadyTimeout.Get(&c))
	require.NoError(t, c.LoadEnv(none))
	require.Equal(t, time.Hour, config.ProcReadyTimeout.Get(&c))
}

func TestSet_byNameEqualsSetByKey(t *testing.T) {
	var c config.Config
	require.NoError(t, c.Set("delivery.max-message", "1MiB"))
	require.Equal(t, config.Size(1<<20), config.DeliveryMaxMessage.Get(&c))
	require.EqualError(t, c.Set("delivery.max-message", "1 MiB"),
		`delivery.max-message="1 MiB": want a size such as 64MiB`)
	require.EqualError(t, c.Set("delivery.max-mesage", "1MiB"),
		`there is no key "delivery.max-mesage"; did you mean delivery.max-message?`)
}

func TestSet_refusesAValueOutOfBounds_CFG2(t *testing.T) {
	var c config.Config
	require.EqualError(t, config.TerminateConcurrency.Set(&c, 257), `terminate.concurrency="257": want 1 to 256`)
	require.EqualError(t, config.TerminateConcurrency.Override(&c, 0),
		`terminate.concurrency="0": want 1 to 256`)
	require.EqualError(t, config.ProcReadyTimeout.Set(&c, -1),
		`proc.ready-timeout="-1ns": want 1ms to 24h, or 0 for none`)
	require.NoError(t, config.ProcReadyTimeout.Set(&c, 0))
	require.Zero(t, config.ProcReadyTimeout.Get(&c))
	require.EqualError(t, config.ProcLogLevel.Set(&c, "loud"),
		`proc.log-level="loud": want one of trace, debug, info, warn, error`)
	require.EqualError(t, config.DeliveryMaxMessage.Set(&c, math.MaxInt64),
		`delivery.max-message="9223372036854775807B": want 64KiB to 1GiB`)
	require.Equal(t, map[string]string{"proc.ready-timeout": "0"}, c.Snapshot().Values)
}

func TestLoad_reportsEachMistakeAndAppliesNothing_CFG2(t *testing.T) {
	var c config.Config
	require.NoError(t, c.LoadEnv(vars{"CASTNET_PROC_READY_TIMEOUT": "1m"}.get))
	err := c.LoadEnv(vars{
		"CASTNET_PROC_READY_TIMEOUT":          "2m",
		"CASTNET_PROC_SPAWN_PROGRESS_TIMEOUT": "abc",
		"CASTNET_TERMINATE_CONCURRENCY":       "300",
		"CASTNET_PROC_DEATH_SIGNAL":           "maybe",
	}.get)
	require.EqualError(t, err, joined(
		`CASTNET_PROC_SPAWN_PROGRESS_TIMEOUT="abc": want a duration such as 30s`,
		`CASTNET_PROC_DEATH_SIGNAL="maybe": want true or false`,
		`CASTNET_TERMINATE_CONCURRENCY="300": want 1 to 256`,
	))
	require.Equal(t, time.Minute, config.ProcReadyTimeout.Get(&c), "the layer stays as it was")
}

func TestLoadFile_errorsNameFileAndLine_CFG2(t *testing.T) {
	var c config.Config
	require.NoError(t, c.LoadFile(map[string]config.Setting{"proc.ready-timeout": {"1m", "a.yaml:1:13"}}))
	err := c.LoadFile(map[string]config.Setting{
		"proc.spwan-progress-timeout": {"30s", "a.yaml:2:5"},
		"terminate.concurrency":       {"many", "a.yaml:9:7"},
		"something":                   {strings.Repeat("x", 1000), "a.yaml:10:7"},
	})
	require.EqualError(t, err, joined(
		`a.yaml:2:5: there is no key "proc.spwan-progress-timeout"; did you mean proc.spawn-progress-timeout?`,
		`a.yaml:10:7: there is no key "something"`,
		`a.yaml:9:7: terminate.concurrency="many": want a whole number such as 16`,
	))
	require.Equal(t, time.Minute, config.ProcReadyTimeout.Get(&c), "the layer stays as it was")
	require.NoError(t, c.LoadFile(nil))
	require.Equal(t, 30*time.Second, config.ProcReadyTimeout.Get(&c), "the layer is replaced as a whole")
}

func TestUnknownVariables_warnExceptOfReservedOnes(t *testing.T) {
	require.Equal(t, []string{
		`environment: there is no key "CASTNET_PROC_SPAWN_PROGRESS_TIMEOTU"; ` +
			`did you mean CASTNET_PROC_SPAWN_PROGRESS_TIMEOUT?`,
		`environment: there is no key "CASTNET_QUUX"`,
	}, config.UnknownVariables([]string{
		"PATH=/bin", "CASTNET_PROC=3,4", "CASTNET_BENCH_ROLE=a", "CASTNET_QUUX=1",
		"CASTNET_PROC_SPAWN_PROGRESS_TIMEOTU=3s",
		"CASTNET_PROC_SPAWN_PROGRESS_TIMEOUT=3s", "CASTNET_PROC_SPAWN_PROGRESS_TIMEOTU=4s", "XCASTNET_A=b", "",
	}))
}

func TestEntries_nameTheSourceOfAValue_CFG1(t *testing.T) {
	var c config.Config
	_, err := c.Push(config.Snapshot{Values: map[string]string{"proc.ready-timeout": "1m",
		"delivery.timeout": "1m"}})
	require.NoError(t, err)
	require.NoError(t, c.LoadFile(map[string]config.Setting{"attach.timeout": {"60s", "a.yaml:1:17"}}))
	require.NoError(t, c.LoadEnv(vars{"CASTNET_DELIVERY_TIMEOUT": "2m"}.get))
	require.NoError(t, config.LogsTailLines.Set(&c, 5))
	require.NoError(t, config.ProcDeathSignal.Override(&c, false))

	by := map[string]config.Entry{}
	for _, e := range c.Entries() {
		by[e.Name] = e
	}
	require.Len(t, by, len(config.Keys()))
	says := func(name, value string, layer config.Layer, place string, changed bool) {
		t.Helper()
		e := by[name]
		require.Equal(t, []any{value, layer, place, changed}, []any{e.Value, e.Layer, e.Source, e.Changed}, name)
	}
	says("proc.ready-timeout", "1m", config.LayerClient, "", true)
	says("delivery.timeout", "2m", config.LayerEnv, "CASTNET_DELIVERY_TIMEOUT", true)
	says("attach.timeout", "1m", config.LayerFile, "a.yaml:1:17", false)
	says("logs.tail-lines", "5", config.LayerRuntime, "", true)
	says("proc.death-signal", "false", config.LayerOverride, "", true)
	says("host.ended-history", "256", config.LayerDefault, "", false)
	require.Equal(t, "30s", by["proc.ready-timeout"].Default)
	require.Equal(t, "CASTNET_PROC_READY_TIMEOUT", by["proc.ready-timeout"].Env)
	require.True(t, by["host.ended-history"].Local)
}

func TestConflicts_nameContradictoryTimeouts(t *testing.T) {
	var c config.Config
	require.NoError(t, config.SupervisionPollInterval.Set(&c, time.Minute))
	require.NoError(t, config.ProcReadyTimeout.Set(&c, 2*time.Minute))
	require.NoError(t, config.DeliverySendBuffer.Set(&c, 1<<30))
	require.Equal(t, []string{
		"want supervision.poll-interval to be less than supervision.lease-ttl: leases would run out before they " +
			"are renewed",
		"want proc.ready-timeout to be at most proc.spawn-progress-timeout: a spawn would give up before hosts " +
			"report which proc is not ready",
		"want proc.ready-timeout to be less than mesh.spawn-timeout: a spawn would give up before hosts report " +
			"which proc is not ready",
		"want delivery.send-buffer to be at most delivery.send-buffer-total",
		"want supervision.controller-timeout to be at least supervision.poll-interval + actor.query-timeout + " +
			"proc.query-timeout: " +
			"a controller that waits for states would be declared dead",
	}, c.Conflicts())
	require.NoError(t, config.SupervisionLeaseTTL.Set(&c, 0))
	require.Len(t, c.Conflicts(), 4, "without leases none run out")
}

func TestConfig_isSafeForConcurrentUse(t *testing.T) {
	var c config.Config
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				_ = config.ProcReadyTimeout.Set(&c, time.Minute)
				_, _ = c.Push(config.Snapshot{Values: map[string]string{"proc.ready-timeout": "2m",
					"delivery.timeout": "2m"}})
				_, _ = c.Push(config.Snapshot{})
				_ = c.LoadEnv(vars{"CASTNET_ATTACH_TIMEOUT": "2m"}.get)
			}
		})
		wg.Go(func() {
			for range 200 {
				_ = config.ProcReadyTimeout.Get(&c)
				require.Len(t, c.Entries(), len(config.Keys()))
				_, _ = c.Snapshot(), c.Conflicts()
			}
		})
	}
	wg.Wait()
	require.Equal(t, map[string]string{"proc.ready-timeout": "1m", "attach.timeout": "2m"}, c.Snapshot().Values)
}

func TestGet_allocatesNothing(t *testing.T) {
	var c config.Config
	require.NoError(t, config.ProcReadyTimeout.Set(&c, time.Minute))
	var sum time.Duration
	require.Zero(t, testing.AllocsPerRun(100, func() { sum += config.ProcReadyTimeout.Get(&c) }))
	require.NotZero(t, sum)
}
