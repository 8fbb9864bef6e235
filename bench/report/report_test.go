package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/report"
)

const notes = `go1.26 linux/amd64
a-rate: repeat 1 of 1: ours [200.0] msgs/s
a-rate: ours median=2000000.00 min=1900000.00 max=2100000.00 unit=msgs/s n=5
a-rate: nats median=1000000.00 min=900000.00 max=1100000.00 unit=msgs/s n=5
a-rate: goakt@v4.2.13 median=500000.00 min=400000.00 max=600000.00 unit=msgs/s n=5
a-time: ours median=12.34 min=12.00 max=13.00 unit=us n=5
a-time: nats median=12.50 min=12.00 max=13.00 unit=us n=5
`

func parsed(t *testing.T) []report.Row {
	t.Helper()
	rows, err := report.Parse(strings.NewReader(notes))
	require.NoError(t, err)
	return rows
}

func TestParse_readsContenders(t *testing.T) {
	rows := parsed(t)
	require.Len(t, rows, 2)
	require.Equal(t, report.Score{Name: "nats", Median: 1e6, Min: 9e5, Max: 1.1e6, Repeats: 5}, rows[0].Scores[1])
	require.Equal(t, "us", rows[1].Unit)
}

func TestParse_keepsTheLastMeasurement(t *testing.T) {
	rows, err := report.Parse(strings.NewReader(notes + strings.ReplaceAll(notes, "12.34", "11.00")))
	require.NoError(t, err)
	require.Len(t, rows[1].Scores, 2)
	require.InDelta(t, 11, rows[1].Scores[0].Median, 0)
}

func TestParse_refusesARowWithoutABase(t *testing.T) {
	_, err := report.Parse(strings.NewReader("a: ours median=1.00 min=1.00 max=1.00 unit=us n=1\n"))
	require.ErrorContains(t, err, "row a: want castnet and a base")
}

func TestVerdict_followsTheDirection(t *testing.T) {
	for _, c := range []struct {
		unit       string
		ours, base float64
		want       string
	}{
		{"msgs/s", 2, 1, "2.00 × better"}, {"msgs/s", 1, 2, "2.00 × worse"},
		{"us", 2, 1, "2.00 × worse"}, {"us", 1, 2, "2.00 × better"},
		{"us", 1.02, 1, "level"}, {"messages", 0, 0, "level"}, {"messages", 0, 5, "better"},
	} {
		r := report.Row{Unit: c.unit, Scores: []report.Score{{Median: c.ours}, {Median: c.base}}}
		require.Equal(t, c.want, r.Verdict(), c)
	}
}

func TestFigure_hasThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234: "1,230", 1_987_654: "1,990,000",
	} {
		require.Equal(t, want, report.Figure(v))
	}
}

func TestText_isATable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, report.Text(&b, parsed(t)))
	require.Equal(t, ""+
		"row     castnet    base       unit    castnet is     base is\n"+
		"a-rate  2,000,000  1,000,000  msgs/s  2.00 × better  nats\n"+
		"a-time  12.3       12.5       us      level          nats\n", b.String())
}

func TestMarkdown_isATable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, report.Markdown(&b, parsed(t)))
	require.Contains(t, b.String(), "\n| a-rate | 2,000,000 | 1,000,000 | msgs/s | 2.00 × better | nats |\n")
}

func TestPlot_isWellFormedAndComplete(t *testing.T) {
	f := report.Family{File: "f.svg", Title: "Sends & more", Rows: []report.Label{{Text: "64 B", Rows: []string{"a-rate"}}}}
	plot, err := report.Plot(f, parsed(t))
	require.NoError(t, err)
	d := xml.NewDecoder(strings.NewReader(plot))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	for _, want := range []string{"Sends &amp; more", ">castnet<", ">raw NATS<", ">goakt<", ">2,000,000<",
		"messages per second, more is better", "prefers-color-scheme:dark"} {
		require.Contains(t, plot, want)
	}
}

func TestPlot_refusesTwoUnits(t *testing.T) {
	f := report.Family{File: "f.svg", Rows: []report.Label{{Text: "a", Rows: []string{"a-rate", "a-time"}}}}
	_, err := report.Plot(f, parsed(t))
	require.EqualError(t, err, "plot f.svg: row a-time is in us, others in msgs/s")
}

func TestPlot_isEmptyWithoutItsRows(t *testing.T) {
	plot, err := report.Plot(report.Family{Rows: []report.Label{{Text: "b", Rows: []string{"b"}}}}, parsed(t))
	require.NoError(t, err)
	require.Empty(t, plot)
}
