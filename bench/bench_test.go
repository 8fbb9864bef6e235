package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The forms in the report that its readers rely on.
var (
	rowForm = regexp.MustCompile(
		`^row=([A-Za-z0-9-]+) ours=[0-9]+\.[0-9]{2} base=[0-9]+\.[0-9]{2} base_name=[a-z0-9.@/-]+ unit=(ns|us|ms|%|B|MiB|asks/s|casts/s|msgs/s|messages|subscriptions|hosts) ratio=([0-9]+\.[0-9]{3}|\+Inf) n=([0-9]+)$`)
	canaryForm = regexp.MustCompile(
		`^canary=spin median=[0-9.]+ min=[0-9.]+ max=[0-9.]+ unit=ms spread=[0-9.]+% n=[0-9]+ disturbed=(yes|no)$`)
)

func TestRow_showsMediansAndTheirRatio(t *testing.T) {
	r := row{name: "call-latency", unit: "us"}
	require.Equal(t, "row=call-latency ours=120.50 base=100.00 base_name=nats-request unit=us ratio=1.205 n=3",
		r.line(score{oursName, []float64{999, 100, 120.5}}, []score{{"nats-request", []float64{1, 100, 101}}}))
}

func TestRow_keepsOursOverTheBaseWhenMoreIsBetter(t *testing.T) {
	r := row{name: "local-ask-64", unit: "asks/s", more: true}
	require.Equal(t, "row=local-ask-64 ours=300.00 base=200.00 base_name=b@v2 unit=asks/s ratio=1.500 n=1",
		r.line(score{oursName, []float64{300}}, []score{{"a@v1", []float64{100}}, {"b@v2", []float64{200}}}))
}

func TestRow_baseIsTheBestMedianInItsDirection_BENCH6(t *testing.T) {
	bases := []score{
		{"middle", []float64{20, 20, 20}},
		{"low", []float64{1000, 10, 11}},  // the worst mean
		{"high", []float64{0, 31, 30}},    // the least minimum
		{"level", []float64{11, 10, 100}}, // as good as low, but later
	}
	require.Equal(t, "low", row{}.best(bases).name)
	require.Equal(t, "high", row{more: true}.best(bases).name)
}

func TestRow_notesEveryContender(t *testing.T) {
	var out, notes bytes.Buffer
	row{name: "r", unit: "ns"}.report([]score{{oursName, []float64{3, 1, 2}}, {"a@v1", []float64{5}},
		{"b@v2", []float64{4}}}, &out, &notes)
	require.Equal(t, "r: ours median=2.00 min=1.00 max=3.00 unit=ns n=3\n"+
		"r: a@v1 median=5.00 min=5.00 max=5.00 unit=ns n=1\n"+
		"r: b@v2 median=4.00 min=4.00 max=4.00 unit=ns n=1\n", notes.String())
	require.Equal(t, "row=r ours=2.00 base=4.00 base_name=b@v2 unit=ns ratio=0.500 n=3\n", out.String())
}

func TestRow_zeroOverZeroIsLevel(t *testing.T) {
	r, none := row{name: "route-burst-lost", unit: "messages"}, []float64{0}
	require.Contains(t, r.line(score{oursName, none}, []score{{"b", none}}), " ratio=1.000 ")
	require.Contains(t, r.line(score{oursName, none}, []score{{"b", []float64{5}}}), " ratio=0.000 ")
	require.Contains(t, r.line(score{oursName, []float64{5}}, []score{{"b", none}}), " ratio=+Inf ")
}

func TestFamilies_haveWellFormedRows(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range families() {
		for _, r := range f.rows {
			require.Regexp(t, rowForm, r.line(score{oursName, []float64{2}}, []score{{"base", []float64{1}}}))
			require.False(t, seen[r.name], "two rows are named %s", r.name)
			seen[r.name] = true
		}
	}
}

func TestQuantile_liesBetweenItsNeighboursInProportion(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{7}, 0.5, 7},
		{[]float64{7}, 0.99, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{2, 1}, 0, 1},
		{[]float64{2, 1}, 1, 2},
		{[]float64{0, 100}, 0.99, 99},
	} {
		require.InDelta(t, c.want, quantile(c.values, c.q), 1e-9, "quantile %v of %v", c.q, c.values)
	}
}

func TestQuantile_doesNotReorderItsInput(t *testing.T) {
	values := []float64{3, 1, 2}
	quantile(values, 0.5)
	require.Equal(t, []float64{3, 1, 2}, values)
}

func TestCanary_reportsDisturbanceAboveTenPercent(t *testing.T) {
	require.Equal(t, "canary=spin median=100.00 min=95.00 max=105.00 unit=ms spread=10.0% n=3 disturbed=no",
		(&canary{times: []float64{100, 95, 105}}).line())
	require.Equal(t, "canary=spin median=100.00 min=95.00 max=106.00 unit=ms spread=11.0% n=3 disturbed=yes",
		(&canary{times: []float64{100, 95, 106}}).line())
}

func TestCanary_timesItsWork(t *testing.T) {
	var c canary
	c.sing()
	c.sing()
	require.Regexp(t, canaryForm, c.line())
	require.Positive(t, c.times[0])
}

func TestParse_refusesInvalidFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-only [", "-only: error parsing regexp"},
		{"-only nosuchrow", `-only "nosuchrow" matches no row; there are call-latency, `},
		{"-repeats 0", "-repeats 0 -samples 2000 -shrink 1: want at least 1 of each"},
		{"-repeats many", `invalid value "many" for flag -repeats`},
		{"-samples -1", "want at least 1 of each"},
		{"-shrink 0", "want at least 1 of each"},
		{"-profiles nosuchdir", `-profiles "nosuchdir": want a directory`},
		{"call", `unexpected argument "call": rows are chosen by -only`},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		require.ErrorContains(t, err, c.want, c.args)
	}
}

func TestParse_emptyPatternMatchesEveryRow(t *testing.T) {
	s, err := parse([]string{"-only", ""}, io.Discard)
	require.NoError(t, err)
	for _, name := range rowNames() {
		require.True(t, s.matches([]string{name}))
	}
}

func TestPlay_refusesAnUnknownRole(t *testing.T) {
	require.Equal(t, 2, play("nobody", strings.NewReader(""), io.Discard))
}

// Casts on an embedded server differ only in the server, so a few of them run. Rows against peers
// need modules, perhaps missing in a test. They differ from those against the floor only in the
// program of the base.
func TestRun_measuresEveryRowThatNeedsNoPeer(t *testing.T) {
	const pattern = "^call|^cast.*([0-9]|1MiB|naive|hostd|growth)$|^cast.*-8(-inflight8)?-embedded$|^spawn-8$|^procs|^first|^control|^detect-(actor|proc)|^hostd|^(actor-spawn|subs)|^worlds|^handle|-floor$|-nats|^route|^flood|^(tell|ask|publish)-permissions-(1|129)(-cpu)?$"
	s, err := parse([]string{"-only", pattern, "-repeats", "1", "-samples", "20", "-shrink", "1000"}, io.Discard)
	require.NoError(t, err)
	var out, notes bytes.Buffer
	require.NoError(t, run(t.Context(), s, &out, &notes), notes.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	names := slices.DeleteFunc(rowNames(), func(name string) bool { return !s.only.MatchString(name) })
	require.Len(t, names, 5+7+5+34+5+8+9+3+2+1+10+9)
	require.Len(t, lines, len(names)+1, out.String())
	for i, name := range names {
		require.Regexp(t, rowForm, lines[i])
		require.Equal(t, []string{name, "1"}, submatches(rowForm, lines[i], 1, 4))
	}
	require.Regexp(t, canaryForm, lines[len(names)])
	requireNoStrays(t)
}

// A missing module counts as a peer without a folder.
func TestRun_missingPeerFailsOnlyItsRows(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := parse([]string{"-only", "local-ask-p50", "-repeats", "1", "-shrink", "1000"}, io.Discard)
	require.NoError(t, err)
	var out bytes.Buffer
	err = run(t.Context(), s, &out, io.Discard)
	require.ErrorContains(t, err, "local-ask-p50: build peer hollywood@v1.0.5 in peers/hollywood: stat "+
		"peers/hollywood/go.mod")
	require.ErrorContains(t, err, "run the benchmarks in the folder of their source")
	require.Equal(t, 1, strings.Count(out.String(), "row="), out.String())
	require.Contains(t, out.String(), "row=local-ask-p50-floor ")
	require.Regexp(t, canaryForm, strings.TrimSpace(out.String()[strings.Index(out.String(), "canary="):]))
	requireNoStrays(t)
}

func TestRun_printsOnlyTheRowsAskedFor(t *testing.T) {
	s, err := parse([]string{"-only", "latency-p99", "-repeats", "2", "-samples", "5"}, io.Discard)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), s, &out, io.Discard))
	require.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
	require.Contains(t, out.String(), "row=call-latency-p99 ")
}

// An interrupt comes during a measurement with procs and responders, or with ranks and fanouts.
func TestRun_interruptLeavesNothingBehind(t *testing.T) {
	for _, name := range []string{"cast-gather-8-hostd", "cast-gather-64"} {
		s, err := parse([]string{"-only", "^" + name + "$", "-repeats", "1000", "-samples", "5"}, io.Discard)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out bytes.Buffer
		err = run(ctx, s, &out, onText{"repeat 2 ", cancel})
		require.ErrorContains(t, err, name+": interrupted")
		require.ErrorIs(t, err, context.Canceled)
		require.NotContains(t, out.String(), "row=")
		requireNoStrays(t)
	}
}

// onText calls f when a text is written.
type onText struct {
	text string
	f    func()
}

func (o onText) Write(p []byte) (int, error) {
	if strings.Contains(string(p), o.text) {
		o.f()
	}
	return len(p), nil
}

func submatches(form *regexp.Regexp, line string, groups ...int) []string {
	var out []string
	for _, g := range groups {
		out = append(out, form.FindStringSubmatch(line)[g])
	}
	return out
}

// requireNoStrays finds other processes of this binary (BENCH-5), on systems that list them.
func requireNoStrays(t *testing.T) {
	t.Helper()
	self, err := os.Readlink("/proc/self/exe")
	if os.IsNotExist(err) {
		return
	}
	require.NoError(t, err)
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(t, err)
	var strays []string
	for _, exe := range exes {
		target, err := os.Readlink(exe)
		if err == nil && target == self {
			strays = append(strays, filepath.Base(filepath.Dir(exe)))
		}
	}
	require.Len(t, strays, 1, "this process and those it left behind")
}
