package output

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

func render(t *testing.T, a *Printer, f Format, tty bool, planets ...planet) string {
	t.Helper()
	var out bytes.Buffer
	a.Stdout, a.Format, a.OutTTY = &out, f, tty
	require.NoError(t, Records(a, planets, []string{"name", "moons"}, func(p planet) []string {
		return []string{a.Paint(Green, p.Name), strings.Repeat("*", p.Moons)}
	}))
	return out.String()
}

func TestShow_printsTheSameRecordsInEveryFormat(t *testing.T) {
	mars, venus := planet{"Mars <&>", 2}, planet{"Venus", 1}
	require.Equal(t, "NAME      MOONS\nMars <&>  **\nVenus     *\n",
		render(t, &Printer{}, Table, false, mars, venus))
	require.Equal(t, "{\"name\":\"Mars <&>\",\"moons\":2}\n{\"name\":\"Venus\",\"moons\":1}\n",
		render(t, &Printer{}, NDJSON, true, mars, venus))
	require.Equal(t, "[\n  {\n    \"name\": \"Venus\",\n    \"moons\": 1\n  }\n]\n",
		render(t, &Printer{}, JSON, true, venus))
	require.Equal(t, "[]\n", render(t, &Printer{}, JSON, false))
	require.Empty(t, render(t, &Printer{}, Table, true))
	require.Empty(t, render(t, &Printer{}, NDJSON, true))
}

func TestShow_drawsTablesOnATerminalWithOptionalColour(t *testing.T) {
	plain := render(t, &Printer{}, Table, true, planet{"Mars", 2})
	require.Equal(t, "NAME  MOONS\n───────────\nMars  **\n", plain,
		"no padding after the last column, so a full row takes one line")
	require.Contains(t, render(t, &Printer{UseColor: true}, Table, true, planet{"Mars", 2}),
		"\x1b[32mMars\x1b[0m")
}

func TestProgress_isDrawnOnTerminalsAndErased(t *testing.T) {
	var err bytes.Buffer
	p := (&Printer{Stderr: &err, ErrTTY: true, Format: Table}).NewProgress()
	p.Update(1, 4, "ranks")
	require.Contains(t, err.String(), "█░")
	require.Contains(t, err.String(), " 1/4 ranks")
	p.Clear()
	p.Clear()
	require.True(t, strings.HasSuffix(err.String(), "ranks\r\x1b[K"))
	for _, a := range []*Printer{{Stderr: &err, Format: Table}, {Stderr: &err, ErrTTY: true, Format: JSON}} {
		err.Reset()
		p = a.NewProgress()
		p.Update(1, 4, "ranks")
		p.Message("working")
		p.Clear()
		require.Empty(t, err.String())
	}
}

func TestProgress_isOneLinePerSecondWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err bytes.Buffer
		p := (&Printer{Stderr: &err, Format: JSON}).NewLineProgress()
		for n := range 5 {
			p.Update(n, 9, "procs have ended")
			time.Sleep(400 * time.Millisecond)
		}
		p.Message("working")
		p.Update(4, 9, "procs have ended")
		time.Sleep(time.Minute)
		p.Update(4, 9, "procs have ended")
		p.Clear()
		require.Equal(t, "3/9 procs have ended\n4/9 procs have ended\n", err.String(),
			"and none when nothing is new")
	})
}
