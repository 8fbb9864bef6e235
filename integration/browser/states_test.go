package browser

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPage_saysThatItsMeshHasEnded_BRW3(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := openWindow(t)
	w.resize(1280, 900, "light")
	w.open(r.url + "&/mesh/" + r.mesh)
	w.awaitText(".legend", "running\n16")
	require.NoError(t, r.orders.Close())
	require.Zero(t, r.program.Exit(t), r.program.Said())
	w.awaitText("#live", "Ended")
	w.awaitText(".notice", "The mesh has ended")
	w.awaitText(".notice", "This is its last picture")
	w.click("Overview")
	w.awaitText(".empty", "No mesh is running")
}

func TestPage_showsAHostThatDies_BRW3(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := openWindow(t)
	w.resize(1280, 900, "light")
	w.open(r.url + "&/mesh/" + r.mesh)
	w.awaitText(".legend", "running\n16")
	require.NoError(t, r.hosts[1].Process.Kill())
	w.awaitText(".legend", "failed\n8")
	w.awaitText(".legend", "running\n8")
	w.awaitText(".trouble", "host b")
	w.awaitText(".head", "1 not alive")
	w.awaitText("#live", "Live")
	w.click("Overview")
	w.awaitText("table", "dead")
}

func TestPage_saysThatTheBusIsLost_BRW3(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := openWindow(t)
	w.resize(1280, 900, "dark")
	w.open(r.url + "&/mesh/" + r.mesh)
	w.awaitText(".legend", "running\n16")
	r.address.Stop(r.bus)
	w.awaitText("#banner", "Cannot ask the castnet")
	w.awaitText("#live", "ago")
	w.awaitText(".legend", "running\n16") // the last picture stays
	r.startBus()
	w.awaitText("#live", "Live")
	w.await("no banner", `document.querySelector('#banner').hidden`)
}

func TestPage_saysThatItsServerHasEnded_BRW3(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := openWindow(t)
	w.resize(360, 800, "light")
	w.open(r.url)
	w.awaitText("table", "16 of 16")
	require.NoError(t, r.ui.Process.Signal(syscall.SIGINT))
	r.ui.Exit(t)
	w.awaitText("#banner", "check that hostd, or castnet ui, still runs")
	w.awaitText("#live", "ago")
}
