package page

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

var speakerType = actor.NewType[*speaker, actor.None]("speaker")

type speaker struct{}

var hang = actor.NewEndpoint[*speaker, actor.None, actor.None]("hang")

func (*speaker) double(_ *actor.Context, n int) (int, error) { return 2 * n, nil }

// hang answers all ranks but the last one at once, which waits for its caller.
func (*speaker) hang(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if ctx.Point().Rank() == 1 {
		<-ctx.Done()
	}
	return actor.None{}, nil
}

func (*speaker) say(_ *actor.Context, text string) (none actor.None, err error) {
	_, err = fmt.Println(text)
	return none, err
}

// The procs run the tests' own binary.
func TestMain(m *testing.M) {
	proc.Main(speakerType.Define(
		func(*actor.Context, actor.None) (*speaker, error) { return &speaker{}, nil },
		actor.NewEndpoint[*speaker, int, int]("double").Handle((*speaker).double),
		hang.Handle((*speaker).hang),
		actor.NewEndpoint[*speaker, string, actor.None]("say").Handle((*speaker).say),
	))
	testkit.Main(m)
}

const token = "the-token"

// site is a served page and its reader.
type site struct {
	testing.TB
	page      *Page
	url       string
	connected atomic.Int32 // calls of Options.Connect
}

// serve serves a page of a castnet.
func serve(t testing.TB, c *testmesh.Cluster, change ...func(*Options)) *site {
	t.Helper()
	s := &site{TB: t}
	server := httptest.NewUnstartedServer(nil)
	o := Options{Token: token, Addr: server.Listener.Addr().String(), Connect: func(ctx context.Context) (*mesh.Net, error) {
		s.connected.Add(1)
		b := c.BusOptions(t)
		return mesh.Connect(ctx, mesh.Options{Bus: &b, Log: zerolog.Nop(), OnFailure: func(actor.Event) {}})
	}}
	for _, f := range change {
		f(&o)
	}
	var err error
	s.page, err = Open(o)
	require.NoError(t, err)
	server.Config.Handler = s.page
	server.Config.WriteTimeout = time.Second // hostd's server has one, too
	server.Start()
	s.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		require.NoError(t, s.page.Close(context.Background()))
		server.Close()
	})
	return s
}

// ask sends a request with the token.
func (s *site) ask(method, path, body string, change ...func(*http.Request)) *http.Response {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s, err)
	r.Header.Set("Authorization", "Bearer "+token)
	for _, f := range change {
		f(r)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s, err)
	s.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// text returns the status and the body of an answer.
func (s *site) text(method, path, body string, change ...func(*http.Request)) (int, string) {
	s.Helper()
	resp := s.ask(method, path, body, change...)
	all, err := io.ReadAll(resp.Body)
	require.NoError(s, err)
	return resp.StatusCode, string(all)
}

// lines reads documents of a stream until found likes one.
func lines[T any](s *site, path string, found func(T) bool) (end func()) {
	s.Helper()
	resp := s.ask(http.MethodGet, path, "")
	require.Equal(s, http.StatusOK, resp.StatusCode)
	defer time.AfterFunc(testkit.Patience, func() { _ = resp.Body.Close() }).Stop()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line T
		require.NoError(s, json.Unmarshal(in.Bytes(), &line), in.Text())
		if found(line) {
			return func() { _ = resp.Body.Close() }
		}
	}
	require.Fail(s, "the stream has ended", "%v", in.Err())
	return nil
}

// spawn starts speakers on two ranks of each host.
func spawn(t testing.TB, c *testmesh.Cluster) mesh.ProcMesh {
	t.Helper()
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "demo", shape.Of("gpu", 2))
	require.NoError(t, err)
	_, err = mesh.Spawn(t.Context(), procs, speakerType, "speakers", actor.None{})
	require.NoError(t, err)
	return procs
}

func TestPage_wantsTokenHostAndOrigin_PAGE1(t *testing.T) {
	t.Parallel()
	s := serve(t, testmesh.Start(t))
	for name, c := range map[string]struct {
		change func(*http.Request)
		code   int
		why    string
	}{
		"no token":       {func(r *http.Request) { r.Header.Del("Authorization") }, 401, "want the token"},
		"wrong token":    {func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, 401, "want the token"},
		"a bound name":   {func(r *http.Request) { r.Host = "evil.example:" + portOf(s.url) }, 403, "as Host, got evil.example"},
		"another port":   {func(r *http.Request) { r.Host = "127.0.0.1:1" }, 403, "as Host"},
		"another origin": {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403, "got one of https://evil"},
		"no origin":      {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403, "got one of null"},
	} {
		code, body := s.text(http.MethodGet, "/api/page", "", c.change)
		require.Equal(t, c.code, code, name)
		require.Contains(t, body, c.why, name)
		if code == http.StatusForbidden {
			code, _ := s.text(http.MethodGet, "/", "", c.change)
			require.Equal(t, c.code, code, "%s: files, too", name)
		}
	}
	for _, host := range []string{"localhost:", "127.0.0.1:"} {
		code, body := s.text(http.MethodGet, "/api/page", "", func(r *http.Request) {
			r.Host = host + portOf(s.url)
			r.Header.Set("Origin", "http://"+r.Host)
		})
		require.Equal(t, http.StatusOK, code, body)
		require.JSONEq(t, `{"host":"","version":"","act":false}`, body)
	}
	named := serve(t, testmesh.Start(t), func(o *Options) { o.Addr = "n07:" + portOf("http://"+o.Addr) })
	for host, want := range map[string]int{"n07:": 200, "N07:": 200, "n08:": 403, "localhost:": 403} {
		code, body := named.text(http.MethodGet, "/api/page", "", func(r *http.Request) { r.Host = host + portOf(named.url) })
		require.Equal(t, want, code, "%s: %s", host, body)
	}
	resp := s.ask(http.MethodGet, "/", "", func(r *http.Request) { r.Header.Del("Authorization") })
	require.Equal(t, http.StatusOK, resp.StatusCode, "files have no secrets")
	require.Equal(t, contentPolicy, resp.Header.Get("Content-Security-Policy"))
	require.Zero(t, s.connected.Load(), "nobody has looked at anything")
}

func portOf(url string) string { return url[strings.LastIndex(url, ":")+1:] }

func TestPage_showsHostsMeshesAndRanks_PAGE2(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a", "b"))
	s := serve(t, c)
	procs := spawn(t, c)
	id := procs.ID().String()
	end := lines(s, "/api/overview", func(o overview) bool {
		return o.Hosts.Count == 2 && o.Meshes.Count == 1 && o.Meshes.Shown[0].Running == 4 && o.Ranks == 4
	})
	require.EqualValues(t, 1, s.connected.Load())
	end()
	testkit.Until(t, "nobody reads, so nothing is asked", func() bool {
		s.page.sampler.mu.Lock()
		defer s.page.sampler.mu.Unlock()
		return s.page.sampler.cancel == nil
	})

	frames := 0
	end = lines(s, "/api/meshes/"+id, func(l struct {
		meshHeader
		frameLine
	}) bool {
		if l.Columns != nil {
			require.Equal(t, []string{"host", "gpu"}, l.Mesh.Labels)
			require.Equal(t, []int{2, 2}, l.Mesh.Sizes)
			require.Contains(t, l.Mesh.Answer, "is running")
			return false
		}
		frames++
		ranks, err := base64.StdEncoding.DecodeString(l.Ranks)
		require.NoError(t, err)
		require.Len(t, ranks, 4*len(columns()))
		return statuses()[ranks[0]] == "running" && statuses()[ranks[3]] == "running"
	})
	end()
	require.NotZero(t, frames)

	code, body := s.text(http.MethodGet, path.Join("/api/meshes", id, "ranks/3"), "")
	require.Equal(t, http.StatusOK, code, body)
	var rank rankInfo
	require.NoError(t, json.Unmarshal([]byte(body), &rank))
	require.Equal(t, "host=1,gpu=1", rank.Point)
	require.Equal(t, "running", rank.Status)
	require.NotZero(t, rank.PID)
	require.Condition(t, func() bool {
		for _, a := range rank.Actors {
			if a.Type == "speaker" {
				return strings.HasPrefix(a.Endpoints[0], "double")
			}
		}
		return false
	}, "%v", rank.Actors)
	for path, want := range map[string]int{
		"/api/meshes/none": 404, "/api/meshes/none/ranks/0": 404, "/api/meshes/" + id + "/ranks/4": 400,
		"/api/meshes/" + id + "/logs?tail=x": 400, "/api/meshes/" + id + "/logs?region=gpu%3D7": 400,
	} {
		code, body := s.text(http.MethodGet, path, "")
		require.Equal(t, want, code, "%s: %s", path, body)
		require.Contains(t, body, `"error":"`, path)
	}
}

func TestPage_showsAKilledRankWithItsCause(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a"))
	s := serve(t, c)
	procs := spawn(t, c)
	id := procs.ID().String()
	var killed atomic.Bool
	end := lines(s, "/api/meshes/"+id, func(l frameLine) bool {
		ranks, err := base64.StdEncoding.DecodeString(l.Ranks)
		require.NoError(t, err)
		if len(ranks) == 0 {
			return false
		}
		if !killed.Swap(true) {
			require.NoError(t, syscall.Kill(testmesh.PIDs(t, c.Net, id)[1], syscall.SIGKILL))
		}
		return statuses()[ranks[1]] == "failed" && statuses()[ranks[0]] == "running"
	})
	defer end()
	defer lines(s, "/api/meshes/"+id, func(l eventLine) bool {
		e := l.Event
		return e != nil && e.Status == "failed" && e.Rank == 1 && strings.Contains(e.Reason, "signal 9") && e.Point != ""
	})()
	testkit.Until(t, "the rank has its failure", func() bool {
		code, body := s.text(http.MethodGet, path.Join("/api/meshes", id, "ranks/1"), "")
		require.Equal(t, http.StatusOK, code, body)
		var rank rankInfo
		require.NoError(t, json.Unmarshal([]byte(body), &rank))
		return rank.Failure != nil && strings.Contains(rank.Failure.Reason, "signal 9")
	})
}

func TestPage_showsACastWithItsCoverage(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a"))
	s := serve(t, c)
	procs := spawn(t, c)
	actors, err := mesh.Find[*speaker](t.Context(), procs, "speakers")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := cast.Gather(ctx, actors, hang, actor.None{})
		over <- err
	}()
	var found inspect.Cast
	lines(s, "/api/meshes/"+procs.ID().String(), func(l frameLine) bool {
		if len(l.Casts) == 1 {
			found = l.Casts[0]
		}
		return found.Answered == 1
	})()
	require.Equal(t, []int{2, 1, 0}, []int{found.Asked, found.Answered, found.Failed})
	require.Equal(t, []string{"speakers", "hang", "host=0,gpu=1", ""},
		[]string{found.Actor, found.Endpoint, found.Waiting, found.Silent})
	require.Positive(t, found.Age)
	require.Positive(t, found.Left)
	require.Contains(t, found.From, c.Net.Proc().ID().String())
	cancel()
	require.ErrorIs(t, <-over, context.Canceled)
	lines(s, "/api/meshes/"+procs.ID().String(), func(l frameLine) bool { return l.Ranks != "" && len(l.Casts) == 0 })()
}

func TestPage_requestsShareTheQuestionsOfTheSampler_PAGE2(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a"))
	s := serve(t, c)
	id := spawn(t, c).ID().String()
	end := lines(s, "/api/meshes/"+id, func(l frameLine) bool { return l.Ranks != "" })
	defer end()
	over, cancel := context.WithCancel(t.Context())
	cancel() // so nothing can be asked
	_, m, err := s.page.find(over, id)
	require.NoError(t, err)
	require.Equal(t, id, m.ID().String())
	_, _, err = s.page.find(over, "other")
	require.ErrorIs(t, err, context.Canceled)
}

func TestSnapshot_keepsEndsThatCameDuringTheSample(t *testing.T) {
	t.Parallel()
	of := func(procs ...inspect.ProcCounters) snapshot { return snapshot{Sample: inspect.Sample{Procs: procs}} }
	last := of(
		inspect.ProcCounters{Mesh: "m", Rank: 0, Status: "failed"},
		inspect.ProcCounters{Mesh: "m", Rank: 1, Status: "failed"},
		inspect.ProcCounters{Mesh: "m", Rank: 2, Status: "running"},
	)
	now := of(
		inspect.ProcCounters{Mesh: "m", Rank: 0, Status: "running"},         // asked before its end
		inspect.ProcCounters{Mesh: "m", Rank: 1, Gen: 1, Status: "running"}, // its next generation
		inspect.ProcCounters{Mesh: "m", Rank: 2, Status: "stopped"},
	).withEndsOf(last)
	require.Equal(t, []string{"failed", "running", "stopped"},
		[]string{now.Procs[0].Status, now.Procs[1].Status, now.Procs[2].Status})
}

func TestPage_showsARankThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a"))
	s := serve(t, c)
	id := spawn(t, c).ID().String()
	pid := testmesh.PIDs(t, c.Net, id)[1]
	proctest.Suspend(t, pid)
	defer proctest.Resume(t, pid)
	code, body := s.text(http.MethodGet, path.Join("/api/meshes", id, "ranks/1"), "")
	require.Equal(t, http.StatusOK, code, body)
	var rank rankInfo
	require.NoError(t, json.Unmarshal([]byte(body), &rank))
	require.Equal(t, pid, rank.PID)
	require.NotEmpty(t, rank.Missing, "it lists no actors")
}

func TestPage_streamsOutputOfARegion(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a"))
	s := serve(t, c, func(o *Options) { o.Act = true })
	id := spawn(t, c).ID().String()
	code, body := s.text(http.MethodPost, "/api/act",
		`{"verb":"cast","mesh":"demo","region":"gpu=1","actor":"speakers","endpoint":"say","body":"hello"}`)
	require.Equal(t, http.StatusOK, code, body)
	lines(s, "/api/meshes/"+id+"/logs?region=gpu%3D1", func(l logRecord) bool {
		return l.Text == "hello" && l.Rank == 1 && l.Point == "host=0,gpu=1" && l.Stream == "stdout"
	})()
}

func TestPage_actsOnlyIfPermitted_PAGE4(t *testing.T) {
	t.Parallel()
	c := testmesh.Start(t, testmesh.Hosts("a"))
	procs := spawn(t, c)
	const stop = `{"verb":"stop","mesh":"demo"}`
	reading := serve(t, c)
	code, body := reading.text(http.MethodPost, "/api/act", stop)
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "the page is read-only")

	s := serve(t, c, func(o *Options) { o.Act = true })
	act := func(body string) string {
		code, answer := s.text(http.MethodPost, "/api/act", body)
		return http.StatusText(code) + ": " + answer
	}
	require.Contains(t, act(`{"verb":"fly","mesh":"demo"}`), `Bad Request: {"error":"act \"fly\": want cast`)
	require.Contains(t, act(`{"verbs":"stop"}`), `unknown field \"verbs\"`)
	require.Contains(t, act(`{"verb":"stop","mesh":"none"}`), "Not Found")
	require.Contains(t, act(`{"verb":"stop","mesh":"demo","region":"gpu=9"}`), "Bad Request")
	require.Contains(t, act(`{"verb":"cast","mesh":"demo","actor":"speakers","endpoint":"double","body":21}`),
		`host=0,gpu=0  42\nhost=0,gpu=1  42\n`)
	require.Contains(t, act(`{"verb":"cast","mesh":"demo","actor":"speakers","endpoint":"double","body":"x"}`),
		`OK: {"output":"cast double to speakers-`)
	require.Contains(t, act(`{"verb":"stack","mesh":"demo"}`), "OK")
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	for _, st := range states.Values() {
		require.False(t, st.Status.Phase.Terminal(), "nothing has stopped so far")
	}
	require.Contains(t, act(stop), "OK")
	lines(s, "/api/meshes/"+procs.ID().String(), func(l struct{ Ended string }) bool { return l.Ended != "" })()
}

func TestPage_streamsAreBounded_PAGE3(t *testing.T) {
	t.Parallel()
	s := serve(t, testmesh.Start(t, testmesh.Hosts("a")))
	for range maxStreams {
		require.Equal(t, http.StatusOK, s.ask(http.MethodGet, "/api/overview", "").StatusCode)
	}
	code, body := s.text(http.MethodGet, "/api/overview", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "64 streams already")
	require.EqualValues(t, 1, s.connected.Load())
}

func TestEncodeRanks_putsEachRankInItsPlace(t *testing.T) {
	t.Parallel()
	frame := encodeRanks([]inspect.ProcCounters{
		{Mesh: "m", Rank: 1, Status: "running", Counters: inspect.Counters{Queued: 1, Memory: 3 << 20}},
		{Mesh: "m", Rank: 2, Status: "running", Silent: true, Counters: inspect.Counters{Memory: 3 << 20}},
		{Mesh: "m", Rank: 3, Status: "failed"},
		{Mesh: "other", Rank: 0, Status: "failed"},
	}, "m", 3)
	require.Len(t, frame, 3*len(columns()))
	names := []string{statuses()[frame[0]], statuses()[frame[1]], statuses()[frame[2]]}
	require.Equal(t, []string{"unknown", "running", "silent"}, names)
	require.Equal(t, []byte{0, 8, unknownByte}, frame[3:6], "8·log2(1+1), and no answer")
	require.Equal(t, []byte{0, 16, 16}, frame[18:21], "8·log2(1+3), from the hosts")
	require.EqualValues(t, unknownByte-1, logByte(1e300))
	require.Zero(t, logByte(-1))
}

func TestMeshFeed_frameOf100000RanksHasSevenBytesOfEach(t *testing.T) {
	t.Parallel()
	const ranks = 100_000
	var now snapshot
	for rank := range ranks {
		now.Procs = append(now.Procs, inspect.ProcCounters{
			Mesh: "m", Rank: rank, Point: fmt.Sprintf("host=%d,gpu=%d", rank/16, rank%16), Status: "running",
			Counters: inspect.Counters{Queued: 1 << 40, Rate: 1e9, CPU: 1e6, Memory: 1 << 50},
		})
	}
	f := meshFeed{header: meshHeader{Mesh: meshInfo{ID: "m", Sizes: []int{ranks / 16, 16}}}}
	line, err := json.Marshal(f.frame(now, meshReport{}))
	require.NoError(t, err)
	const envelope = 200
	require.Less(t, len(line), base64.StdEncoding.EncodedLen(7*ranks)+envelope, "whatever the ranks do")
	frame := encodeRanks(now.Procs, "m", ranks)
	require.Equal(t, "running", statuses()[frame[ranks-1]])
}
