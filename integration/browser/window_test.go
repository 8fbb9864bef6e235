package browser

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

// window is a window of Chromium.
type window struct {
	testing.TB
	ctx context.Context
}

// openWindow starts a Chromium of the test's own.
func openWindow(t testing.TB) *window {
	t.Helper()
	path, err := exec.LookPath("chromium")
	require.NoError(t, err, "install Chromium: apt-get install chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.NoSandbox, // tests in containers run as root
		chromedp.UserDataDir(t.TempDir()))
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeWindow := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it waits for the end of the processes
		closeWindow()
		end()
	})
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("about:blank"))) // the browser lives as long as ctx
	return &window{t, ctx}
}

// do runs actions, within Patience.
func (w *window) do(actions ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, testkit.Patience)
	defer cancel()
	require.NoError(w, chromedp.Do(ctx, actions...))
}

// resize sets the size of the view and the colour scheme.
func (w *window) resize(width, height int64, scheme string) {
	w.Helper()
	w.do(chromedp.EmulateViewport(width, height))
	_, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(w, err)
}

// open loads an address, with nothing left of the page before.
func (w *window) open(url string) {
	w.Helper()
	w.do(chromedp.Navigate("about:blank"), chromedp.Navigate(url))
}

// ask evaluates an expression, or waits for its promise.
func ask[T any](w *window, expression string) (value T) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, testkit.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(w, err, expression)
	return value
}

// await waits until an expression is true. It returns when it was.
func (w *window) await(what, expression string) time.Time {
	w.Helper()
	ms := ask[float64](w, fmt.Sprintf(`new Promise((found) => {
		const end = performance.now() + %d;
		const look = () => {
			if (%s) found(performance.timeOrigin + performance.now());
			else if (performance.now() > end) found(0);
			else setTimeout(look, 5);
		};
		look();
	})`, (testkit.Patience-5*time.Second).Milliseconds(), expression))
	require.NotZero(w, ms, "the page does not show %s:\n%s", what, ask[string](w, "document.body?.innerText ?? ''"))
	return time.UnixMicro(int64(1000 * ms))
}

// awaitText waits until a part of the page has a text.
func (w *window) awaitText(part, text string) time.Time {
	w.Helper()
	return w.await(fmt.Sprintf("%q in %s", text, part),
		fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && e.innerText.includes(%q))`,
			part, text))
}

// press presses keys one after the other.
func (w *window) press(keys ...string) {
	w.Helper()
	for _, key := range keys {
		w.do(chromedp.KeyEvent(key))
	}
}

// pressShift presses a key with Shift.
func (w *window) pressShift(key string) {
	w.Helper()
	w.do(chromedp.KeyEvent(key, chromedp.KeyModifiers(kb.ModifierShift)))
}

// tabTo presses Tab until an element has the focus.
func (w *window) tabTo(selector string) {
	w.Helper()
	for range 80 {
		if ask[bool](w, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			return
		}
		w.press(kb.Tab)
	}
	require.Fail(w, "Tab does not reach "+selector)
}

// click clicks a button by its name.
func (w *window) click(name string) {
	w.Helper()
	w.await("a button "+name, fmt.Sprintf(`[...document.querySelectorAll('button, a, summary')].some((e) =>
		e.checkVisibility() && (e.ariaLabel ?? e.innerText).trim() === %q)`, name))
	found := fmt.Sprintf(`[...document.querySelectorAll('button, a, summary')].find((e) =>
		e.checkVisibility() && (e.ariaLabel ?? e.innerText).trim() === %q)`, name)
	at := ask[[]float64](w, fmt.Sprintf(`(() => {
		const e = %s;
		e.scrollIntoView({ block: 'center' });
		const r = e.getBoundingClientRect();
		return [r.left + r.width / 2, r.top + r.height / 2];
	})()`, found))
	w.clickAt(at[0], at[1])
}

// clickAt clicks where something is.
func (w *window) clickAt(x, y float64) {
	w.Helper()
	w.do(chromedp.MouseClickXY(x, y))
}

// cell returns where the map has a point, such as "host=0,gpu=3".
func (w *window) cell(point string) (x, y float64) {
	w.Helper()
	at := ask[[]float64](w, fmt.Sprintf(`(() => {
		const canvas = document.querySelector('canvas');
		canvas.scrollIntoView({ block: 'center' });
		const box = canvas.getBoundingClientRect();
		for (let y = box.top + 36; y < box.bottom; y += 4) {
			for (let x = box.left; x < box.right; x += 4) {
				canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: y, bubbles: true }));
				if (document.querySelector('.tip strong')?.textContent === %q && !document.querySelector('.tip').hidden)
					return [x, y];
			}
		}
		return [];
	})()`, point))
	require.Len(w, at, 2, "the map has no cell %s", point)
	return at[0], at[1]
}

// drag drags over the map from one point to another.
func (w *window) drag(from, to string) {
	w.Helper()
	x, y := w.cell(from)
	endX, endY := w.cell(to)
	w.do(chromedp.DragAndDropXY(x, y, endX, endY))
}

// fill types a text over what an input has.
func (w *window) fill(selector, text string) {
	w.Helper()
	ask[bool](w, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.focus();
		e.select();
		return true;
	})()`, selector))
	w.press(text)
}
