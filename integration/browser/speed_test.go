package browser

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The figures of this test are in docs/decisions/0088. It asserts none of them: machines differ.
func TestPage_isMeasured(t *testing.T) {
	r := newRig(t)
	w := openWindow(t)
	w.resize(1280, 900, "light")
	w.open(r.url + "&/mesh/" + r.mesh)
	w.awaitText(".legend", "running\n16")
	t.Logf("first paint %.0f ms, the map %.0f ms after the navigation", ask[float64](w,
		`performance.getEntriesByName('first-contentful-paint')[0].startTime`), ask[float64](w, `performance.now()`))

	begin := usage(t, r.ui.PID())
	busy := w.taskTime()
	const watched = 10 * time.Second
	ask[bool](w, fmt.Sprintf(`new Promise((done) => setTimeout(() => done(true), %d))`, watched.Milliseconds()))
	t.Logf("watched for %s: castnet ui uses %.2f %% of a core, tasks of the page %.2f %%", watched,
		100*(usage(t, r.ui.PID())-begin).Seconds()/watched.Seconds(), 100*(w.taskTime()-busy)/watched.Seconds())

	var late []time.Duration
	for i, rank := range []int{1, 4, 6, 9, 12, 15} {
		knew := r.kill(rank)
		shown := w.awaitText(".legend", fmt.Sprintf("failed\n%d", i+1))
		late = append(late, shown.Sub(knew))
	}
	slices.Sort(late)
	t.Logf("a kill is visible after its owner knows: median %s, worst %s", late[len(late)/2], late[len(late)-1])

	w.open(r.url)
	w.awaitText("table", "of 16")
	for _, hosts := range []int{2048, 12_500} {
		frames := ask[[]float64](w, fmt.Sprintf(drawMap, hosts))
		require.NotEmpty(t, frames)
		slices.Sort(frames)
		t.Logf("%d ranks are drawn in %.1f ms (median of %d), %.1f ms at worst", 8*hosts, frames[len(frames)/2], len(frames),
			frames[len(frames)-1])
	}
}

// taskTime is how long the page has computed so far, in seconds.
func (w *window) taskTime() float64 {
	w.Helper()
	_, err := chromedp.Call(w.ctx, performance.Enable, performance.EnableParams{})
	require.NoError(w, err)
	all, err := chromedp.Call(w.ctx, performance.GetMetrics, cdp.Empty{})
	require.NoError(w, err)
	for _, m := range all.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	require.Fail(w, "Chromium does not count tasks")
	return 0
}

// drawMap draws frames of a mesh of some hosts with eight ranks each, and times each frame.
const drawMap = `(async () => {
	const [hosts, ranks] = [%[1]d, 8 * %[1]d];
	const { HeatMap } = await import('./heatmap.js');
	const map = new HeatMap({ onOpen() {}, onSelect() {} });
	document.getElementById('main').replaceChildren(map.el);
	const columns = ['status', 'queued', 'latency', 'restarts', 'rate', 'cpu', 'memory'].map((name) => ({ name }));
	map.setHeader({ mesh: { label: 'large', labels: ['host', 'gpu'], sizes: [hosts, 8] }, columns,
		statuses: ['unknown', 'running', 'initializing', 'stopping', 'stopped', 'failed', 'silent'] });
	const times = [];
	for (let i = 0; i < 40; i++) {
		const data = Uint8Array.from({ length: 7 * ranks },
			(_, at) => (at < ranks ? 1 + ((at + i) %% 97 === 0) * 4 : Math.random() * 255));
		let before = 0;
		requestAnimationFrame(() => { before = performance.now(); });
		const begin = performance.now();
		map.setData(data); // the legend, and a request to draw, which runs after the one before
		const set = performance.now() - begin;
		await new Promise(requestAnimationFrame);
		times.push(set + performance.now() - before);
	}
	return times;
})()`

// usage is the processor time of a process.
func usage(t *testing.T, pid int) time.Duration {
	t.Helper()
	said, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(said[strings.LastIndex(string(said), ")")+1:]))
	sum := 0
	for _, at := range []int{11, 12} { // utime and stime, of 10 ms each
		n, err := strconv.Atoi(fields[at])
		require.NoError(t, err)
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}
