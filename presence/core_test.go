package presence

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

var update = flag.Bool("update", false, "write the traces of testdata/*.txt anew")

// Each file of testdata is a script. A line is a moment and its event. The indented lines below it
// are the reports until the next one.
func TestStep_scenarios(t *testing.T) { // PRES-1, PRES-3, PRES-4, PRES-11
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			require.NoError(t, err)
			got := play(t, string(script))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			require.Equal(t, string(script), got)
		})
	}
}

func play(t *testing.T, script string) string {
	var got strings.Builder
	var s *sim
	s = newSim(func(c Change) { fmt.Fprintf(&got, "\t%v %s\n", s.now, c.line()) })
	s.judged = func(v suspicion) { fmt.Fprintf(&got, "\t%v verdict: %s, after %s\n", s.now, v.verdict, v.took) }
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			got.WriteString(line)
			continue
		}
		at, err := time.ParseDuration(f[0])
		require.NoError(t, err, line)
		s.run(at)
		got.WriteString(line)
		s.do(t, f[1], f[2:])
	}
	return got.String()
}

// do is one verb of a script.
func (s *sim) do(t *testing.T, verb string, args []string) {
	var h *simHost
	if len(args) > 0 && verb != "busy" && verb != "score" && verb != "silence" {
		h = s.host(args[0])
	}
	switch verb {
	case "watch":
		s.step(hostAdded{h.id})
	case "drop":
		s.step(hostRemoved{h.id})
	case "killed": // its server sees that
		h.dead = true
		s.disconnect(h.conns)
	case "vanishes": // without a word to anybody
		h.dead = true
	case "freezes":
		h.frozen = true
	case "thaws":
		h.frozen = false
	case "leaves": // its connections are cut
		h.away = true
		s.disconnect(h.conns)
	case "returns":
		h.away = false
		s.addConnections(h)
	case "unreachable":
		h.away = true
	case "reachable":
		h.away = false
	case "mute":
		h.mute = true
	case "lags": // so late is each heartbeat
		h.lag = duration(t, args[1])
	case "mode":
		h.mode = agent.HostMode(args[1])
	case "gateway": // name, or none
		h.gateway = subjects.ProcessID{}
		if len(args) > 1 {
			id, err := subjects.ParseProcessID(args[1] + "-000000000000g_0-0")
			require.NoError(t, err)
			h.gateway = id
		}
	case "interval":
		h.interval = duration(t, args[1])
	case "restarts":
		h.dead, h.life, h.seq = false, h.life+1, 0
		s.addConnections(h)
	case "hint": // the end of its first connection
		s.disconnect(h.conns[:1])
	case "forged": // the end of all
		s.disconnect(h.conns)
	case "stale": // an old heartbeat comes again
		s.send(heartbeatReceived{agent.Heartbeat{Host: h.id, Incarnation: h.life, Seq: h.seq,
			Interval: h.interval}})
	case "goodbye":
		s.beat(h, true)
		h.dead = true
	case "missed":
		s.step(messagesDropped{})
	case "down":
		s.lose()
	case "stall":
		s.stalled = true
	case "pause":
		s.paused = true
	case "heal":
		s.heal()
	case "busy":
		s.busy = duration(t, args[0])
	case "score":
		require.Equal(t, args[0], fmt.Sprint(s.core.healthScore), "score at %v", s.now)
	case "silence": // of the bus
		require.Equal(t, duration(t, args[0]), s.core.busSilence(s.now), "silence at %v", s.now)
	case "end":
	default:
		require.Fail(t, "unknown verb", verb)
	}
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}
