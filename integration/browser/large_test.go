package browser

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// largeMesh makes fetch answer for a server with a mesh of 100,000 ranks on 12,500 hosts, of which a
// sample asks 4,096. The first half of the ranks have values, and each 997th rank has failed. The
// paths of requests are in asked.
const largeMesh = `(() => {
	const [hosts, gpus, ranks] = [12500, 8, 100000];
	const units = { status: '', queued: 'messages', latency: 'µs', restarts: '', rate: 'messages/s', cpu: '%',
		memory: 'MiB' };
	const header = { mesh: { id: 'large-0000000000000', label: 'large', name: 'large', kind: 'mesh',
		labels: ['host', 'gpu'], sizes: [hosts, gpus], phase: 'running', answer: '', hosts, hosts_down: 3, owner: { id: 'train/0.0/a' } },
		statuses: ['unknown', 'running', 'initializing', 'stopping', 'stopped', 'failed', 'silent'],
		columns: Object.entries(units).map(([name, unit]) => ({ name, unit })) };
	const value = (column, rank) => {
		if (column === 0) return rank % 997 === 0 ? 5 : 1;
		if (column === 3) return 0;
		const isAsked = [1, 2, 4].includes(column);
		return isAsked && rank >= ranks / 2 ? 255 : Math.round(40 + 30 * Math.sin(rank / 4000) + (rank % 8) * 2);
	};
	const bytes = new Uint8Array(7 * ranks);
	for (let c = 0; c < 7; c++) for (let r = 0; r < ranks; r++) bytes[c * ranks + r] = value(c, r);
	let text = '';
	for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
	const frame = { at: new Date().toISOString(), ranks: btoa(text), casts: [],
		part: { asked: 4096, live: 99899, oldest: 94e9 } };
	const rows = (shown, count, trouble = 0) => ({ shown, count, trouble });
	const host = (i) => ({ host: 'n' + String(i).padStart(5, '0'), id: 'n' + i, procs: 8, queued: 3, handled: 9,
		rate: 800, cpu: 700, memory: 8 * 2 ** 30, state: i < 3 ? 'dead' : 'alive', silence: i < 3 ? 9e9 : 0 });
	const overview = { at: frame.at, ranks, worlds: rows([], 0),
		hosts: rows(Array.from({ length: 200 }, (_, i) => host(i)), hosts, 3),
		meshes: rows([{ mesh: header.mesh.id, label: 'large', kind: 'mesh', extent: 'host=12500,gpu=8', ranks,
			running: 99899, phase: 'running', hosts: ['n00000', 'n00001', 'n00002'], host_count: hosts, owner: { kind: 'program' } }], 1, 1) };
	globalThis.asked = [];
	const server = globalThis.fetch;
	globalThis.fetch = async (path, options) => {
		const isOverview = path === '/api/overview';
		if (!isOverview && !path.startsWith('/api/meshes/' + header.mesh.id)) return server(path, options);
		globalThis.asked.push(path);
		if (path.includes('/ranks/')) return new Response(JSON.stringify({ rank: 0, status: 'running', actors: [] }));
		const lines = isOverview ? [overview] : [header, frame];
		return new Response(new ReadableStream({
			start(out) { out.enqueue(new TextEncoder().encode(lines.map((l) => JSON.stringify(l) + '\n').join(''))); },
		}));
	};
	return true;
})()`

// walk goes down a column of the map with the keyboard's steps, and returns the first mistake.
const walk = `(async () => {
	const { layoutOf, placeOf, pointAt, stepFrom } = await import('./layout.js');
	const view = { width: 820, height: 700, left: 50, name: 0, bandName: 35, unit: 1 };
	const l = layoutOf({ sizes: [12500, 8], x: 1, y: 0, ...view });
	if (l.bands < 2 || l.perRow < 2) return 'there are no bands side by side';
	let at = placeOf(l, [0, 3]);
	for (let host = 0; host < 12500; host++) {
		if (String(pointAt(l, at)) !== String([host, 3])) return 'host ' + host + ' is ' + pointAt(l, at);
		if (JSON.stringify(placeOf(l, [host, 3])) !== JSON.stringify(at)) return 'host ' + host + ' has another place';
		const next = stepFrom(l, at, 0, 1);
		const back = stepFrom(l, next, 0, -1);
		if (host < 12499 && JSON.stringify(back) !== JSON.stringify(at)) return 'a step back from host ' + (host + 1);
		at = next;
	}
	return '';
})()`

func TestPage_saysWhichPartOf100000RanksItAsked_BRW3(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := openWindow(t)
	w.resize(1280, 900, "light")
	w.open(r.url)
	w.awaitText("table", "of 16")
	ask[bool](w, largeMesh)

	ask[bool](w, `location.hash = '#/mesh/large-0000000000000', true`)
	w.awaitText(".legend", "failed\n101")
	w.awaitText("main", "There are many ranks: 4,096 of 99,899 are asked for their messages at a time")
	w.awaitText("main", "The oldest values are 94 s old.")
	w.awaitText(".head", "12,500 hosts, 3 not alive")
	require.NotContains(t, ask[string](w, "document.querySelector('.legend').innerText"), "not known",
		"hosts know the status of each rank")
	w.choose("Colour", "queued, messages")
	w.awaitText(".legend", "not known")
	x, y := w.cell("host=3,gpu=5")
	w.awaitText(".tip", "queued")
	require.NotContains(t, ask[string](w, "document.querySelector('.tip').innerText"), "not known")
	require.Empty(t, ask[[]string](w, overflowing))

	w.clickAt(x, y)
	w.await("a question for the opened rank", `asked.some((path) => path.endsWith('?region=host%3D3%2Cgpu%3D5'))`)
	w.fill("#region", "host=9000:9004")
	w.press("\r")
	w.await("a question for the region", `asked.some((path) => path.endsWith('?region=host%3D9000%3A9004'))`)
	w.awaitText("#live", "Live")
	w.await("a cell without a value", `(() => {
		const [view, canvas] = [document.querySelector('.map'), document.querySelector('canvas')];
		view.scrollTop = view.scrollHeight;
		const box = canvas.getBoundingClientRect();
		for (let x = box.left; x < box.left + 200; x += 4) {
			canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: box.top + 200, bubbles: true }));
		}
		return document.querySelector('.tip').innerText.includes('not known');
	})()`)

	w.click("Overview")
	w.awaitText(".sum", "1 mesh · 100,000 ranks · 12,500 hosts")
	w.awaitText("section", "and 12,300 more hosts, all well")
	require.EqualValues(t, 200, ask[float64](w, `[...document.querySelectorAll('table')].at(-1).tBodies[0].rows.length`))
	require.Empty(t, ask[[]string](w, overflowing))
	w.resize(360, 800, "light")
	ask[bool](w, `location.hash = '#/mesh/large-0000000000000', true`)
	w.awaitText("main", "There are many ranks")
	require.Empty(t, ask[[]string](w, overflowing))
	require.Empty(t, ask[string](w, walk))
}

// choose selects an option of a labelled list.
func (w *window) choose(label, option string) {
	w.Helper()
	w.await(label+" "+option, fmt.Sprintf(`(() => {
		const label = [...document.querySelectorAll('label')].find((l) => l.firstChild.textContent === %q);
		const of = label?.querySelector('select');
		const choice = of && [...of.options].find((o) => o.text === %q);
		if (!choice) return false;
		of.value = choice.value;
		of.dispatchEvent(new Event('change'));
		return true;
	})()`, label, option))
}
