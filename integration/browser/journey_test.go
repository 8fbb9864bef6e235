package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func TestPage_leadsFromTheOverviewToARankAndItsCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := openWindow(t)
	w.resize(1280, 900, "light")
	w.open(r.url)
	w.awaitText("table", "16 of 16")
	require.Empty(t, ask[string](w, "location.hash.match(/token/)?.[0] ?? ''"), "the token leaves the address bar")
	w.click("train")
	w.awaitText(".legend", "running\n16")

	r.kill(5)
	w.awaitText(".legend", "failed\n1")
	w.awaitText(".trouble", "signal 9")
	w.awaitText(".events", "host=0,gpu=5 failed: killed by signal 9")

	w.drag("host=0,gpu=1", "host=1,gpu=3")
	w.awaitText(".sum", "6 ranks selected")
	require.Equal(t, "gpu=1:4", ask[string](w, "document.querySelector('#region').value"))
	w.awaitText(".commands", "castnet logs -f 'train[gpu=1:4]'")
	w.await("endpoints of the region", `[...document.querySelectorAll('.cast option')].some((o) => o.value === 'trainers step')`)
	ask[bool](w, `(() => {
		const choice = document.querySelector('.cast select');
		choice.value = 'trainers step';
		choice.dispatchEvent(new Event('change'));
		return true;
	})()`)
	w.fill(".cast input", "41")
	w.awaitText(".commands", "castnet cast 'train[gpu=1:4]' trainers step '41'")
	w.click("Run: Cast")
	w.awaitText("pre", "host=1,gpu=3  42")

	x, y := w.cell("host=1,gpu=2")
	w.clickAt(x, y)
	w.awaitText("#rank-title", "host=1,gpu=2")
	w.awaitText(".facts", fmt.Sprint(r.processes[ranksPerHost+2]))
	w.awaitText(".actors", "step(int) int")
	w.click("Live output")
	w.awaitText(".rank", "No lines yet.")
	w.click("Select")
	w.awaitText(".sum", "1 rank selected")

	r.beginCast()
	w.awaitText(".casts", "asked 16 · answered 13 · failed 1")
	w.awaitText(".casts", "no answer yet from [host=0,gpu=2:4]")
	w.click("Select host=0,gpu=2:4")
	w.awaitText(".sum", "2 ranks selected")
}

func TestPage_showsOutputAsItComes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := openWindow(t)
	w.resize(1280, 900, "dark")
	w.open(r.url + "&/mesh/" + r.mesh + "/rank/3")
	w.awaitText(".facts", fmt.Sprint(r.processes[3]))
	w.click("Live output")
	said := r.start(nil, built(t, "castnet"), "cast", "train[host=0,gpu=3]", "trainers", "say", `"epoch 7"`)
	require.Zero(t, said.Exit(t), said.Said())
	w.awaitText(".output", "epoch 7")
}

func TestPage_needsNoMouse_BRW2(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := openWindow(t)
	w.resize(1280, 900, "light")
	w.open(r.url)
	w.awaitText("table", "16 of 16")
	w.tabTo("td a")
	w.press(kb.Enter)
	w.awaitText(".legend", "running\n16")
	w.tabTo("canvas")
	w.press(kb.ArrowRight, kb.ArrowDown)
	w.awaitText(".unseen[aria-live]", "rank 9, host=1,gpu=1, running")
	w.pressShift(kb.ArrowRight)
	w.awaitText(".sum", "2 ranks selected")
	w.press(kb.Escape)
	w.awaitText(".sum", "Drag over the map")
	w.press(kb.Enter)
	w.awaitText("#rank-title", "host=1,gpu=2")
	w.await("the focus on the rank", `document.activeElement.id === 'rank-title'`)
	w.press(kb.Escape)
	w.await("the focus on the map", `document.activeElement.matches('canvas') && document.querySelector('.rank').hidden`)
	w.tabTo("#region")
	w.press("gpu=7", kb.Enter)
	w.awaitText(".sum", "2 ranks selected")
	w.tabTo(`[aria-label="Run: Stacks"]`)
	w.await("the endpoints", `[...document.querySelectorAll('option')].some((e) => e.value === 'trainers step')`)
	w.press(kb.Enter) // the button has the focus, whether the endpoints came before or after it
	w.awaitText(".region h3", "Stacks")
	w.tabTo(`[aria-label="Run: Restart"]`)
	w.press(kb.Enter)
	w.awaitText("dialog", "Restart 2 ranks one after another?")
	w.press(kb.Escape)
	w.await("no question", `!document.querySelector('dialog').open`)
}
