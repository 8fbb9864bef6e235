package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type planet struct {
	Name  string `json:"name"`
	Moons int    `json:"moons"`
}

func render(t *testing.T, a *app, f outputFormat, tty bool, planets ...planet) string {
	t.Helper()
	var out bytes.Buffer
	a.stdout, a.output, a.outTTY = &out, f, tty
	require.NoError(t, showRecords(a, planets, []string{"name", "moons"}, func(p planet) []string {
		return []string{a.paint(green, p.Name), strings.Repeat("*", p.Moons)}
	}))
	return out.String()
}

func TestShow_printsTheSameRecordsInEveryFormat(t *testing.T) {
	mars, venus := planet{"Mars <&>", 2}, planet{"Venus", 1}
	require.Equal(t, "NAME      MOONS\nMars <&>  **\nVenus     *\n", render(t, &app{}, asTable, false, mars, venus))
	require.Equal(t, "{\"name\":\"Mars <&>\",\"moons\":2}\n{\"name\":\"Venus\",\"moons\":1}\n", render(t, &app{}, asNDJSON, true, mars, venus))
	require.Equal(t, "[\n  {\n    \"name\": \"Venus\",\n    \"moons\": 1\n  }\n]\n", render(t, &app{}, asJSON, true, venus))
	require.Equal(t, "[]\n", render(t, &app{}, asJSON, false))
	require.Empty(t, render(t, &app{}, asTable, true))
	require.Empty(t, render(t, &app{}, asNDJSON, true))
}

func TestShow_drawsTablesOnATerminalWithOptionalColour(t *testing.T) {
	plain := render(t, &app{}, asTable, true, planet{"Mars", 2})
	require.Equal(t, "NAME  MOONS\n───────────\nMars  **\n", plain, "nothing behind the last column: what just fits takes one line")
	require.Contains(t, render(t, &app{useColor: true}, asTable, true, planet{"Mars", 2}), "\x1b[32mMars\x1b[0m")
}

func TestProgress_isDrawnOnTerminalsAndErased(t *testing.T) {
	var err bytes.Buffer
	p := (&app{stderr: &err, errTTY: true, output: asTable}).newProgress()
	p.update(1, 4, "ranks")
	require.Contains(t, err.String(), "█░")
	require.Contains(t, err.String(), " 1/4 ranks")
	p.clear()
	p.clear()
	require.True(t, strings.HasSuffix(err.String(), "ranks\r\x1b[K"))
	for _, a := range []*app{{stderr: &err, output: asTable}, {stderr: &err, errTTY: true, output: asJSON}} {
		err.Reset()
		p = a.newProgress()
		p.update(1, 4, "ranks")
		p.message("working")
		p.clear()
		require.Empty(t, err.String())
	}
}

func TestProgress_isOneLinePerSecondWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err bytes.Buffer
		p := (&app{stderr: &err, output: asJSON}).newLineProgress()
		for n := range 5 {
			p.update(n, 9, "procs have ended")
			time.Sleep(400 * time.Millisecond)
		}
		p.message("working")
		p.update(4, 9, "procs have ended")
		time.Sleep(time.Minute)
		p.update(4, 9, "procs have ended")
		p.clear()
		require.Equal(t, "3/9 procs have ended\n4/9 procs have ended\n", err.String(), "and none when nothing is new")
	})
}

func TestShorten_keepsOneLineWithinItsLength(t *testing.T) {
	require.Equal(t, "äöü", shorten(" äöü\n", 3))
	require.Equal(t, "äö…", shorten("äöüß", 3))
	require.Equal(t, "one …", shorten("one\ntwo", 9))
}

func TestAge_readsNaturally(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1500 * time.Millisecond: "1s", 61 * time.Second: "1m", 90 * time.Minute: "1h30m", 50 * time.Hour: "2d",
	} {
		require.Equal(t, want, formatAge(d))
	}
}
