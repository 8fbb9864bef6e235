package status

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLine_printsOnceASecondWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		line := Start(&out, func() string { return "busy" })
		time.Sleep(2500 * time.Millisecond)
		line.Print("an event")
		line.Stop()
		line.Stop()
		require.Equal(t, "busy\nbusy\nan event\n", out.String())
	})
}

func TestLine_isRedrawnInPlaceOnATerminal(t *testing.T) {
	var out strings.Builder
	text := ""
	line := &Line{text: func() string { return text }, terminal: true, out: &out}
	line.draw() // nothing yet
	text = "one"
	line.draw()
	line.Print("an event")
	text = "two"
	line.draw()
	require.Equal(t, "\r\x1b[Kone\r\x1b[Kan event\n\r\x1b[Ktwo", out.String())
}

func TestBar_isFullAtTheEndAndNeverLonger(t *testing.T) {
	require.Equal(t, "━━──", Bar(1, 2, 4))
	require.Equal(t, "━━━━", Bar(9, 2, 4))
	require.Equal(t, "────", Bar(0, 0, 4))
}

func TestCount_groupsDigits(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 12345678: "12,345,678",
		-1234: "-1,234"} {
		require.Equal(t, want, Count(n))
	}
}
