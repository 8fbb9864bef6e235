package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// hostOf addresses the agent of the only host.
func hostOf(t *testing.T, conn *mesh.Net) actor.Ref[agent.Agent] {
	t.Helper()
	hosts, err := conn.Hosts(testkit.Soon(t))
	require.NoError(t, err)
	require.Len(t, hosts.Infos(), 1)
	return agent.Of(hosts.Infos()[0].ID.Proc()).Via(conn.Proc())
}

// probe requests one of the health pages.
func probeHTTP(t *testing.T, d *daemon, page string) (int, healthStatus) {
	t.Helper()
	req, err := http.NewRequestWithContext(testkit.Soon(t), http.MethodGet,
		strings.TrimSuffix(d.ready.HTTP, "/readyz")+page, nil)
	require.NoError(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Do(req)
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	var c healthStatus
	require.NoError(t, json.NewDecoder(r.Body).Decode(&c))
	return r.StatusCode, c
}

func TestHostd_reportsItsHealthOverHTTP_HOSTD7(t *testing.T) {
	t.Parallel()
	srv, err := embed.Start(testkit.Soon(t), embed.Options{Token: "t"})
	require.NoError(t, err)
	defer srv.Shutdown()
	s := newSite(t, "NATS_TOKEN=t")
	d := s.start(t, "--nats", srv.URL(), "--http", ":0", "--label", "a", "--host-label", "zone=b",
		"--host-label", "disk=nvme")
	require.True(t, strings.HasPrefix(d.ready.HTTP, "http://127.0.0.1:"), d.ready.HTTP)
	require.Equal(t, "disk=nvme zone=b", d.ready.Labels)
	conn := s.connect(t, bus.Options{URL: srv.URL(), Token: "t"})
	agentOf := hostOf(t, conn)

	code, c := probeHTTP(t, d, "/readyz")
	require.Equal(t, 200, code)
	require.Equal(t, healthStatus{OK: true, Host: d.ready.Host, Mode: agent.ModeOpen}, c)

	info, err := agent.Cordon.Call(testkit.Soon(t), agentOf,
		agent.CordonRequest{Cordon: true, Reason: "new disks"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"zone": "b", "disk": "nvme"}, info.Labels)
	code, c = probeHTTP(t, d, "/readyz")
	require.Equal(t, 503, code)
	require.Equal(t, healthStatus{Reason: "the host is cordoned: new disks", Host: d.ready.Host,
		Mode: agent.ModeCordoned}, c)
	code, c = probeHTTP(t, d, "/healthz")
	require.Equal(t, 200, code, "it is as it should be")
	require.True(t, c.OK)
	_, err = agent.Cordon.Call(testkit.Soon(t), agentOf, agent.CordonRequest{})
	require.NoError(t, err)
	code, _ = probeHTTP(t, d, "/readyz")
	require.Equal(t, 200, code)

	srv.Shutdown()
	require.Eventually(t, func() bool {
		code, c = probeHTTP(t, d, "/readyz")
		return code == 503
	}, testkit.Patience, 10*time.Millisecond)
	require.Equal(t, "disconnected from the bus: reconnecting", c.Reason)
	code, _ = probeHTTP(t, d, "/healthz")
	require.Equal(t, 200, code, "killing it would not bring the bus back")
	d.Stop(t)
}

func TestHostd_servesThePageToItsUserOnly_HOSTD14(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--http", ":0", "--label", "a")
	stat, err := os.Stat(d.ready.PageFile)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, stat.Mode().Perm())
	said, err := os.ReadFile(d.ready.PageFile)
	require.NoError(t, err)
	url, token, _ := strings.Cut(strings.TrimSpace(string(said)), "/#token=")
	require.NotContains(t, d.Err.String(), token)

	ask := func(method, path, token, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		require.NoError(t, err)
		return resp.StatusCode, line
	}
	code, _ := ask(http.MethodGet, "/api/overview", "", "")
	require.Equal(t, http.StatusUnauthorized, code)
	code, line := ask(http.MethodGet, "/api/overview", token, "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, line, `"host":"a"`)
	code, line = ask(http.MethodPost, "/api/act", token, `{"verb":"stop","mesh":"demo"}`)
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, line, "start hostd with --ui-act")
	d.Stop(t)
	s.requireClean(t)
}

func TestHostd_lameDuckAwaitsItsProcs_HOSTD4(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--http", "127.0.0.1:0")
	conn := s.connect(t, bus.Options{})
	counters, pids := spawn(t, conn)
	d.Send(t, syscall.SIGUSR2)
	said := d.await(t, "lame duck: no new procs; waiting for the end of 2, until")
	require.Equal(t, 2, said.Procs)
	code, c := probeHTTP(t, d, "/readyz")
	require.Equal(t, 503, code)
	require.Equal(t, "the host is cordoned: "+lameDuckReason, c.Reason)
	hosts, err := conn.AllHosts(testkit.Soon(t))
	require.NoError(t, err)
	_, err = hosts.SpawnProcs(testkit.Soon(t),
		mesh.SpawnSpec{Name: "late", PerHost: counters.Extent(), Command: mesh.Command{Path: agent.Builtin}})
	require.Error(t, err)
	n, err := add.Call(testkit.Soon(t), counters.Ref(0), 2)
	require.NoError(t, err, "running procs are not touched")
	require.EqualValues(t, 42, n)
	d.Send(t, syscall.SIGUSR2) // once is enough

	require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
	d.await(t, "lame duck: no new procs; waiting for the end of 1,")
	require.NoError(t, counters.Procs().Stop(testkit.Soon(t)))
	d.await(t, "lame duck: every proc has ended")
	d.await(t, "drained")
	require.Zero(t, d.Exit(t), d.Err.String())
	requireGone(t, pids)
	s.requireClean(t)
}

func TestHostd_lameDuckDrainsAtItsTimeout_HOSTD4(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--lame-duck", "50ms")
	_, pids := spawn(t, s.connect(t, bus.Options{}))
	d.Send(t, syscall.SIGUSR2)
	d.await(t, "lame duck: 2 procs have not ended within 50ms")
	require.Zero(t, d.Exit(t), d.Err.String())
	requireGone(t, pids)
	s.requireClean(t)
}

func TestHostd_lameDuckObeysSigterm_HOSTD4(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t)
	_, pids := spawn(t, s.connect(t, bus.Options{}))
	d.Send(t, syscall.SIGUSR2)
	d.await(t, "lame duck: no new procs")
	d.Stop(t)
	require.NotContains(t, d.Err.String(), "have not ended")
	requireGone(t, pids)
}

func TestHostd_leavesOnABusRequest_HOSTD4(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t)
	conn := s.connect(t, bus.Options{})
	_, pids := spawn(t, conn)
	done, err := agent.StopAll.Call(testkit.Soon(t), hostOf(t, conn),
		agent.StopAllRequest{Reason: "moving out", Grace: testkit.Patience})
	require.NoError(t, err)
	require.Equal(t, agent.StopSummary{Requested: 2, Ended: 2}, done)
	d.await(t, "asked over the bus to leave")
	require.Zero(t, d.Exit(t), d.Err.String())
	requireGone(t, pids)
	_, err = os.Stat(s.localFile())
	require.True(t, errors.Is(err, fs.ErrNotExist))
	s.requireClean(t)
}

func TestHostd_appliesItsConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "castnet.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("proc.ready-timeout: 1ms\nterminate.grace: 3s\nspawn: { concurrency: 2 }\n"), 0o600))
	s := newSite(t, "CASTNET_TERMINATE_GRACE=4s")
	self, err := os.Executable()
	require.NoError(t, err)
	show := exec.CommandContext(testkit.Soon(t), self, "--config", file, "--ready-timeout", "20s",
		"--show-config")
	show.Env = s.env()
	table, err := show.Output()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^proc\.ready-timeout +20s +override `, string(table))
	require.Regexp(t, `(?m)^terminate\.grace +4s +environment `, string(table))
	require.Regexp(t, `(?m)^spawn\.concurrency +2 +`+regexp.QuoteMeta(file)+`:3:`, string(table))
	s.requireClean(t)

	d := s.start(t, "--config", file)
	conn := s.connect(t, bus.Options{})
	hosts, err := conn.Hosts(testkit.Soon(t))
	require.NoError(t, err)
	_, err = hosts.Spawn(testkit.Soon(t), "m", shape.Of("gpu", 1))
	require.ErrorContains(t, err, "not ready within 1ms")
	entries, err := agent.GetConfig.Call(testkit.Soon(t), hostOf(t, conn), actor.None{})
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(entries, func(e keys.Entry) bool {
		return e.Name == "terminate.grace" && e.Value == "4s" && e.Layer == keys.LayerEnv
	}))
	d.Stop(t)

	require.NoError(t, os.WriteFile(file, []byte("proc.redy-timeout: 1s\n"), 0o600))
	code, why := s.requireFailedStart(t, "--config", file)
	require.Equal(t, 2, code)
	require.Contains(t, why, file+`:1:1: there is no key "proc.redy-timeout"; did you mean proc.ready-timeout?`)
	code, why = newSite(t, "CASTNET_PROC_READY_TIMEOUT=soon").requireFailedStart(t)
	require.Equal(t, 2, code)
	require.Contains(t, why, `CASTNET_PROC_READY_TIMEOUT="soon": want a duration`)
	_, why = s.requireFailedStart(t, "--config", "/nowhere")
	require.Contains(t, why, "/nowhere")
	s.requireClean(t)
}

// scrape returns the metrics of a hostd. It scrapes again while the agent is slow to answer.
func scrape(t *testing.T, d *daemon) (out string) {
	t.Helper()
	page := strings.TrimSuffix(d.ready.HTTP, "/readyz") + "/metrics"
	testkit.Until(t, "the agent answers", func() bool {
		r, err := http.Get(page) //nolint:noctx // it ends with the test
		require.NoError(t, err)
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		if r.StatusCode == http.StatusServiceUnavailable {
			return false
		}
		require.Equal(t, http.StatusOK, r.StatusCode, string(body))
		out = string(body)
		return true
	})
	return out
}

func TestHostd_countersOfItsProcsNeverFall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--http", ":0", "--label", "a")
	counters, pids := spawn(t, s.connect(t, bus.Options{}))
	_, err := cast.Gather(testkit.Soon(t), counters, add, 1)
	require.NoError(t, err)
	want := func(lines ...string) {
		t.Helper()
		testkit.Until(t, "metrics", func() bool {
			out := scrape(t, d)
			return !slices.ContainsFunc(lines, func(l string) bool { return !strings.Contains(out, l+"\n") })
		})
	}
	handled := `castnet_messages_handled_total{endpoint="add",host="a",mesh="m",type="counter"} 2`
	want(handled, `castnet_ranks{host="a",mesh="m",phase="running"} 2`, `castnet_silent_procs{host="a",mesh="m"} 0`,
		`castnet_actors{host="a",mesh="m",status="running",type="counter"} 2`)
	require.NoError(t, syscall.Kill(pids[0], syscall.SIGSTOP))
	want(handled, `castnet_silent_procs{host="a",mesh="m"} 1`)
	require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
	want(handled, `castnet_ranks{host="a",mesh="m",phase="failed"} 1`, `castnet_silent_procs{host="a",mesh="m"} 0`)
	d.Stop(t)
}

// scrapeInTime returns the metrics of a hostd, "" if its agent was slow to answer, or why a scraper
// would report the host as down.
func scrapeInTime(ctx context.Context, d *daemon) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimSuffix(d.ready.HTTP, "/readyz")+"/metrics", nil)
	if err != nil {
		return "", err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode == http.StatusServiceUnavailable {
		return "", nil
	}
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", r.StatusCode, body)
	}
	return string(body), err
}

// spawnAndKill starts two procs and kills one of them, again and again until ctx ends. It returns the number of killed
// procs.
func spawnAndKill(ctx context.Context, t *testing.T, conn *mesh.Net) (killed int, err error) {
	hosts, err := conn.Hosts(ctx)
	for err == nil && ctx.Err() == nil {
		var procs mesh.ProcMesh
		procs, err = hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
			Name: "brief", PerHost: shape.Of("gpu", 2), Command: mesh.Command{Path: agent.Builtin},
		})
		if err != nil {
			break
		}
		var all []mesh.MeshState
		all, err = conn.Meshes(t.Context())
		for _, m := range all {
			if m.Procs.ID() == procs.ID() {
				err = errors.Join(err, syscall.Kill(m.States[0].Proc.PID, syscall.SIGKILL))
				killed++
			}
		}
		err = errors.Join(err, procs.Stop(t.Context()))
	}
	return killed, err
}

func TestHostd_scrapesEndInTimeWhileProcsDie(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--http", ":0", "--label", "a")
	quiet := s.connect(t, bus.Options{})
	counters, pids := spawn(t, quiet)
	_, err := cast.Gather(testkit.Soon(t), counters, add, 1)
	require.NoError(t, err)
	const handled = `castnet_messages_handled_total{endpoint="add",host="a",mesh="m",type="counter"} 2` + "\n"
	const silent = `castnet_silent_procs{host="a",mesh="m"} `
	testkit.Until(t, "both procs are counted", func() bool {
		out := scrape(t, d)
		return strings.Contains(out, handled) && strings.Contains(out, silent+"0\n")
	})
	busy := s.connect(t, bus.Options{})
	ctx, end := context.WithCancel(testkit.Soon(t))
	defer end()
	var killed int
	var churn error
	churning := make(chan struct{})
	go func() {
		defer close(churning)
		killed, churn = spawnAndKill(ctx, t, busy)
	}()
	for i := range 8 {
		want := "0\n"
		if i == 4 {
			proctest.Suspend(t, pids[0])
		}
		if i >= 4 {
			want = "1\n"
		}
		testkit.Until(t, fmt.Sprintf("scrape %d: %s%s", i, silent, want), func() bool {
			out, err := scrapeInTime(t.Context(), d)
			require.NoError(t, err, "scrape %d", i)
			if out == "" {
				return false
			}
			problems, err := promlint.New(strings.NewReader(out)).Lint()
			require.NoError(t, err)
			require.Empty(t, problems)
			require.True(t, strings.Contains(out, handled), "the counters of a silent proc stay")
			return strings.Contains(out, silent+want) // a proc that is slow to answer is silent, too
		})
	}
	end()
	testkit.Next(t, churning)
	require.NoError(t, churn)
	require.NotZero(t, killed)
	t.Logf("%d procs were killed during 8 scrapes", killed)
	require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL)) // it could not stop by itself
	d.Stop(t)
}

// statsData returns the data of one endpoint in the micro STATS of a service.
func statsData(t *testing.T, conn *mesh.Net, service, endpoint string) (m agent.MeshMetrics) {
	t.Helper()
	answer, err := conn.Bus().Control().Request(testkit.Soon(t), bus.Msg{Subject: "$SRV.STATS." + service})
	require.NoError(t, err)
	var stats struct {
		Endpoints []struct {
			Name string            `json:"name"`
			Data agent.MeshMetrics `json:"data"`
		} `json:"endpoints"`
	}
	require.NoError(t, json.Unmarshal(answer.Data, &stats))
	for _, e := range stats.Endpoints {
		if e.Name == endpoint {
			m = e.Data
		}
	}
	return m
}

func TestHostd_countsCastsLeasesCommandsAndGatewayRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t, "CASTNET_HOST_ALLOW_EXEC=true")
	d := s.start(t, "--http", ":0", "--label", "a")
	conn := s.connect(t, bus.Options{})
	spawn(t, conn)
	to := "castnet.v1.default.cast.m.counters.add." + conn.Proc().Sender().String()
	for _, body := range []string{"1", `"no number"`} {
		_, err := conn.Bus().Data().Request(testkit.Soon(t), bus.Msg{Subject: to, Data: []byte(body)})
		require.NoError(t, err)
	}
	for _, command := range []string{"true", "false"} {
		_, err := agent.Exec.Call(testkit.Soon(t), hostOf(t, conn),
			agent.ExecRequest{Command: []string{command}, Timeout: testkit.Patience})
		require.NoError(t, err)
	}
	_, err := agent.Exec.Call(testkit.Soon(t), hostOf(t, conn),
		agent.ExecRequest{Command: []string{"no-such-command"}, Timeout: testkit.Patience})
	require.Error(t, err)
	var out string
	lines := []string{
		`castnet_gateway_requests_total{host="a",mesh="",outcome="complete"} 1`,
		`castnet_gateway_requests_total{host="a",mesh="",outcome="failed"} 1`,
		`castnet_gateway_request_seconds_count{host="a",mesh=""} 2`,
		`castnet_casts_total{host="a",kind="gather",mesh="",outcome="failed"} 1`,
		`castnet_cast_ranks_failed_total{host="a",kind="gather",mesh=""} 2`,
		`castnet_execs_total{host="a",mesh="",outcome="succeeded"} 1`,
		`castnet_execs_total{host="a",mesh="",outcome="failed"} 1`,
		`castnet_execs_total{host="a",mesh="",outcome="refused"} 1`,
		`castnet_bus_messages_dropped_total{host="a",inbox="requests",mesh=""} 0`,
		`castnet_lease_renewal_failures_total{host="a",mesh="m"} 0`,
	}
	lease := regexp.MustCompile(`(?m)^castnet_lease_remaining_seconds\{host="a",mesh="m"\} \d`)
	testkit.Until(t, "every part is counted", func() bool {
		out = scrape(t, d)
		return lease.MatchString(out) &&
			!slices.ContainsFunc(lines, func(l string) bool { return !strings.Contains(out, l+"\n") })
	})
	require.NotContains(t, out, `castnet_lease_remaining_seconds{host="a",mesh=""}`)

	gateway := statsData(t, conn, "castnet-gateway", "cast")
	require.Equal(t, uint64(1), gateway.Gateway.Requests["complete"])
	require.Equal(t, uint64(1), gateway.Casts[0].Failed)
	require.Equal(t, uint64(1), statsData(t, conn, "castnet-host", "metrics").Execs["succeeded"])
	proc := statsData(t, conn, "castnet-proc", "metrics") // of either proc
	require.Equal(t, []string{"counter", "proc-agent"}, []string{proc.Types[0].Type, proc.Types[1].Type})
	d.Stop(t)
}

// The size of the mesh in a test of scrapes. A measurement sets 64 procs and 10,000 actors.
var (
	scrapedProcs  = flag.Int("scraped-procs", 4, "procs in the test of scrapes")
	scrapedActors = flag.Int("scraped-actors", 200, "actors in the test of scrapes")
)

// maxSeries bounds the series of a host, whatever its actors.
const maxSeries = 2000

func TestHostd_seriesOfAScrapeDoNotGrowWithActors(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--http", ":0", "--label", "a")
	conn := s.connect(t, bus.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	hosts, err := conn.Hosts(ctx)
	require.NoError(t, err)
	procs, err := hosts.SpawnProcs(ctx, mesh.SpawnSpec{
		Name: "m", PerHost: shape.Of("gpu", *scrapedProcs), Command: mesh.Command{Path: agent.Builtin},
	})
	require.NoError(t, err)
	actors := 0
	var before int
	for actors < *scrapedActors {
		counters, err := mesh.Spawn(ctx, procs, counter, "counters", int64(0))
		require.NoError(t, err)
		_, err = cast.Gather(ctx, counters, add, 1)
		require.NoError(t, err)
		actors += *scrapedProcs
		if before == 0 {
			scrape(t, d) // which the next one counts
			testkit.Until(t, "every proc answers", func() bool {
				out := scrape(t, d)
				before = series(out)
				return strings.Contains(out, `castnet_silent_procs{host="a",mesh="m"} 0`+"\n")
			})
		}
	}
	var out string
	var times []time.Duration
	for range 20 {
		start := time.Now()
		out = scrape(t, d)
		times = append(times, time.Since(start).Round(10*time.Microsecond))
	}
	slices.Sort(times)
	t.Logf("%d procs, %d actors: %d series, %d bytes; a scrape takes %s to %s, median %s", *scrapedProcs, actors,
		series(out), len(out), times[0], times[len(times)-1], times[len(times)/2])
	testkit.Until(t, "every actor is counted", func() bool {
		out = scrape(t, d)
		return strings.Contains(out, fmt.Sprintf("castnet_actors{host=%q,mesh=%q,status=%q,type=%q} %d\n", "a", "m",
			"running", "counter", actors))
	})
	const lateEndpoints = 50 // of agents that are first called meanwhile, such as renewals
	require.Less(t, series(out), before+lateEndpoints, "actors add no series")
	require.Less(t, series(out), maxSeries)
	require.NoError(t, procs.Stop(ctx))
	d.Stop(t)
}

// series counts the samples of a scrape.
func series(scrape string) (n int) {
	for line := range strings.Lines(scrape) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}
