package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
)

// example has every metric.
func example() agent.Metrics {
	m := agent.MeshMetrics{
		Mesh: "train", Silent: 1, Restarts: 2, CPUTime: 1500 * time.Millisecond, Memory: 1 << 20, Reconnects: 3,
		Stats: actor.Stats{Malformed: 4, Bounced: 5},
		Types: []agent.TypeMetrics{{
			Type: "trainer", Actors: map[actor.Status]int{actor.Running: 6}, Queued: 7, Stuck: 1,
			Endpoints: []actor.EndpointInfo{{
				Name: "step", Handled: 640, Failed: 9,
				Waited: actor.Timing{Samples: 10, Mean: time.Millisecond, Max: time.Second},
				Ran:    actor.Timing{Samples: 10, Mean: 2 * time.Millisecond},
			}},
		}},
	}
	m.Ranks = map[agent.Phase]int{agent.Running: 6}
	m.Casts = []cast.KindCount{{Kind: "gather", Complete: 3, Partial: 2, RanksAsked: 20, RanksMissing: 4,
		Duration: 5 * time.Second}}
	m.Leases = agent.LeaseMetrics{Remaining: 20 * time.Second, TTL: 30 * time.Second, RenewalFailures: 1}
	own := agent.MeshMetrics{
		Gateway: agent.GatewayMetrics{
			Requests: map[string]uint64{"complete": 8, "refused": 1},
			Served:   agent.TimeTotal{Count: 8, Sum: 2 * time.Second}, UnderWay: 2,
		},
		Detections: map[string]agent.TimeTotal{"silence": {Count: 2, Sum: 6 * time.Second}},
		Execs:      map[string]uint64{"succeeded": 3}, Dropped: map[string]uint64{"requests": 7},
		Leases: agent.LeaseMetrics{Expired: 1},
	}
	return agent.Metrics{Host: "n07", Meshes: []agent.MeshMetrics{own, m}}
}

func text(t *testing.T, hosts ...agent.Metrics) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, hosts))
	return b.String()
}

func TestWrite_hasEachCounterWithItsLabels(t *testing.T) {
	t.Parallel()
	out := text(t, example())
	for _, line := range []string{
		`castnet_ranks{host="n07",mesh="train",phase="running"} 6`,
		`castnet_silent_procs{host="n07",mesh="train"} 1`,
		`castnet_procs_cpu_seconds_total{host="n07",mesh="train"} 1.5`,
		`castnet_messages_bounced_total{host="n07",mesh="train"} 5`,
		`castnet_actors{host="n07",mesh="train",status="running",type="trainer"} 6`,
		`castnet_stuck_actors{host="n07",mesh="train",type="trainer"} 1`,
		`castnet_messages_handled_total{endpoint="step",host="n07",mesh="train",type="trainer"} 640`,
		`castnet_message_run_seconds_sum{endpoint="step",host="n07",mesh="train",type="trainer"} 0.02`,
		`castnet_message_run_seconds_count{endpoint="step",host="n07",mesh="train",type="trainer"} 10`,
		`castnet_bus_reconnects_total{host="n07",mesh=""} 0`,
		`castnet_casts_total{host="n07",kind="gather",mesh="train",outcome="complete"} 3`,
		`castnet_casts_total{host="n07",kind="gather",mesh="train",outcome="abandoned"} 0`,
		`castnet_cast_ranks_asked_total{host="n07",kind="gather",mesh="train"} 20`,
		`castnet_cast_ranks_missing_total{host="n07",kind="gather",mesh="train"} 4`,
		`castnet_cast_seconds_sum{host="n07",kind="gather",mesh="train"} 5`,
		`castnet_cast_seconds_count{host="n07",kind="gather",mesh="train"} 5`,
		`castnet_lease_remaining_seconds{host="n07",mesh="train"} 20`,
		`castnet_lease_renewal_failures_total{host="n07",mesh="train"} 1`,
		`castnet_leases_expired_total{host="n07",mesh=""} 1`,
		`castnet_detection_seconds_sum{host="n07",mesh="",verdict="silence"} 6`,
		`castnet_execs_total{host="n07",mesh="",outcome="succeeded"} 3`,
		`castnet_bus_messages_dropped_total{host="n07",inbox="requests",mesh=""} 7`,
		`castnet_gateway_requests_total{host="n07",mesh="",outcome="refused"} 1`,
		`castnet_gateway_requests_active{host="n07",mesh=""} 2`,
		`castnet_gateway_request_seconds_count{host="n07",mesh=""} 8`,
	} {
		require.Contains(t, out, line+"\n")
	}
}

func TestWrite_addsUpHostsOfOneLabel(t *testing.T) {
	t.Parallel()
	out := text(t, example(), example())
	require.Contains(t, out, `castnet_ranks{host="n07",mesh="train",phase="running"} 12`)
	require.NotContains(t, out, `castnet_lease_remaining_seconds{host="n07",mesh=""}`, "it has no lease")
	require.NotContains(t, out, `castnet_gateway_requests_active{host="n07",mesh="train"}`, "it has no gateway")
	require.Equal(t, len(strings.Split(text(t, example()), "\n")), len(strings.Split(out, "\n")))
}

func TestMetrics_keepPrometheusConventions(t *testing.T) {
	t.Parallel()
	problems, err := promlint.New(strings.NewReader(text(t, example()))).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestMetrics_noSeriesIsOfARankOrAnActor(t *testing.T) {
	t.Parallel()
	one := agent.Metrics{Host: "n07"}
	sum := one
	for range 1000 {
		sum = sum.Add(example())
	}
	series := func(m agent.Metrics) int {
		return testutil.CollectAndCount(newCollector([]agent.Metrics{m}))
	}
	require.Equal(t, series(one.Add(example())), series(sum))
}

func TestHandler_showsTheHostAndTheProcess(t *testing.T) {
	t.Parallel()
	get := func(context.Context) (agent.Metrics, error) { return example(), nil }
	w := httptest.NewRecorder()
	Handler(get).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), "castnet_mailbox_messages")
	require.Contains(t, w.Body.String(), "go_goroutines")
	require.Contains(t, w.Body.String(), "go_build_info{")
	require.Contains(t, w.Body.String(), "process_resident_memory_bytes")
}

func TestHandler_hostWithoutAnAnswerIs503(t *testing.T) {
	t.Parallel()
	get := func(context.Context) (agent.Metrics, error) { return agent.Metrics{}, errors.New("starting") }
	w := httptest.NewRecorder()
	Handler(get).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	require.Equal(t, 503, w.Code)
	require.Equal(t, "cannot collect metrics: starting\n", w.Body.String())
}

// The dashboard and the alerts name metrics that exist.
func TestPackaging_queriesNameExposedMetrics(t *testing.T) {
	t.Parallel()
	exposed := text(t, example())
	name := regexp.MustCompile(`\bcastnet_[a-z_]+`)
	for _, file := range []string{"grafana-dashboard.json", "prometheus-alerts.yaml"} {
		data, err := os.ReadFile("../../packaging/" + file)
		require.NoError(t, err)
		used := name.FindAllString(string(data), -1)
		slices.Sort(used)
		require.NotEmpty(t, used)
		for _, n := range slices.Compact(used) {
			require.Contains(t, exposed, fmt.Sprintf("\n%s{", n), file)
		}
	}
}
