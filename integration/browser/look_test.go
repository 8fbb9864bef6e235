package browser

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the pictures of the documentation")

// axeFile is axe-core as npm ci has installed it, by the hash in the lock file.
const axeFile = "axe/node_modules/axe-core/axe.min.js"

// overflowing lists what is cut off or wider than the window. Some parts scroll by themselves.
const overflowing = `(() => {
	const scrolls = '.scroll, .map, .unseen, pre, .output, .events, .tip, #skip, select, option, input, svg';
	const bad = [...document.querySelectorAll('body, body *')].filter((e) => {
		if (!e.checkVisibility() || e.closest(scrolls)) return false;
		const box = e.getBoundingClientRect();
		const cut = getComputedStyle(e).overflowX !== 'visible' && e.scrollWidth > e.clientWidth + 1;
		return cut || box.left < -1 || box.right > innerWidth + 1;
	}).map((e) => e.outerHTML.slice(0, 120));
	const root = document.documentElement;
	return root.scrollWidth > root.clientWidth ? ['the page scrolls sideways', ...bad] : bad;
})()`

// complaints lists what axe finds.
const complaints = `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.flatMap((v) =>
	v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 160) + ' ' + (n.failureSummary ?? ''))))`

func TestPage_fitsEachWidthAndAxeFindsNothing_BRW1(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile(axeFile)
	require.NoError(t, err, "run `make browser`, which installs axe-core")
	r := newRig(t)
	r.beginCast()
	r.kill(5)
	w := openWindow(t)
	screens := []struct {
		name, path string
		show       func()
	}{
		{"overview", "/", func() { w.awaitText("table", "15 of 16") }},
		{"mesh", "/mesh/" + r.mesh, func() {
			w.awaitText(".legend", "failed\n1")
			w.awaitText(".casts", "no answer yet from [host=0,gpu=2:4]")
		}},
		{"region", "/mesh/" + r.mesh, func() {
			w.awaitText(".legend", "failed\n1")
			w.fill("#region", "gpu=1:4")
			w.press(kb.Enter)
			w.awaitText(".commands", "train[gpu=1:4]")
			w.await("endpoints", `document.querySelectorAll('.cast option').length > 0`)
		}},
		{"rank", "/mesh/" + r.mesh + "/rank/5", func() { w.awaitText(".causes", "signal 9") }},
		{"gone", "/mesh/none-0000000000000", func() { w.awaitText(".empty", "Cannot show mesh") }},
	}
	pictures := map[string]string{
		"region 1280 light": "page.png", "mesh 800 dark": "page-800.png", "rank 360 light": "page-360.png",
	}
	for _, width := range []int64{360, 800, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			w.resize(width, 900, scheme)
			for _, s := range screens {
				what := fmt.Sprintf("%s %d %s", s.name, width, scheme)
				w.open(r.url + "&" + s.path)
				s.show()
				require.Empty(t, ask[[]string](w, overflowing), what)
				ask[bool](w, string(axe)+"; true")
				require.Empty(t, ask[[]string](w, complaints), what)
				if file := pictures[what]; file != "" && *update {
					picture, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
					require.NoError(t, err)
					require.NoError(t, os.WriteFile(repo(t, "docs", file), picture, 0o644))
				}
			}
		}
	}
}
