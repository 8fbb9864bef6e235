package supervise_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/internal/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// origin is the time at which every test begins.
var origin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// text is effects in one line; times are counted from the origin.
func text(effects []supervise.Effect) string {
	var out []string
	for _, e := range effects {
		switch e := e.(type) {
		case supervise.Stop:
			out = append(out, "stop "+e.Key.(string))
		case supervise.Start:
			out = append(out, "start "+e.Key.(string))
		case supervise.SetTimer:
			out = append(out, fmt.Sprint("wait ", e.Until.Sub(origin)))
		case supervise.Escalate:
			out = append(out, "escalate "+e.Key.(string)+": "+e.Reason)
		}
	}
	return strings.Join(out, ", ")
}

// script runs a State from lines of text.
type script struct {
	t        require.TestingT
	s        *supervise.State
	policies map[string]supervise.Policy
	now      time.Time
}

// do carries out one event and returns its effects. A line is
//
//	[+<duration>] <key> spawned | ends | fails | asked | is <new key> | cannot start
//	[+<duration>] due | over
func (x *script) do(line string) string {
	words := strings.Fields(line)
	if words[0][0] == '+' {
		d, err := time.ParseDuration(words[0][1:])
		require.NoError(x.t, err)
		x.now = x.now.Add(d)
		words = words[1:]
	}
	switch words[0] {
	case "due":
		return text(x.s.OnTimer(x.now))
	case "over":
		x.s.Stopping()
		return ""
	}
	switch key := words[0]; words[1] {
	case "spawned":
		p, ok := x.policies[key]
		require.True(x.t, ok, "no policy for %s", key)
		x.s.Started(key, p)
		return ""
	case "ends":
		return text(x.s.Ended(key, supervise.Stopped, x.now))
	case "fails":
		return text(x.s.Ended(key, supervise.Failed, x.now))
	case "asked":
		return text(x.s.Ended(key, supervise.Requested, x.now))
	case "is":
		return text(x.s.Restarted(key, words[2], x.now))
	case "cannot":
		return text(x.s.StartFailed(key, x.now))
	}
	require.Fail(x.t, "no such event", line)
	return ""
}

// line is an event and its expected effects.
type line struct{ event, effects string }

// play runs lines with a State. It has the children a, b and c, one for each given policy.
func play(t *testing.T, strategy supervise.Strategy, policies map[string]supervise.Policy, lines []line) {
	t.Helper()
	x := &script{t, supervise.New(strategy), policies, origin}
	for _, key := range []string{"a", "b", "c"} {
		if _, ok := policies[key]; ok {
			x.do(key + " spawned")
		}
	}
	for i, l := range lines {
		require.Equal(t, l.effects, x.do(l.event), "line %d: %s", i+1, l.event)
	}
}
