package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Ours is castnet among the scores of a row.
const Ours = "ours"

// MaxRows bounds the rows of Parse.
const MaxRows = 1000

// Score is the result of one contender: the median, the least and the most of its repeats.
type Score struct {
	Name             string
	Median, Min, Max float64
	Repeats          int
}

// Row is one measured thing. The first score is castnet's.
type Row struct {
	Name, Unit string
	Scores     []Score
}

// more reports whether more is better.
func (r Row) more() bool { return strings.HasSuffix(r.Unit, "/s") }

// Best is the best score of the others. A row has one at least.
func (r Row) Best() Score {
	best := r.Scores[1]
	for _, s := range r.Scores[2:] {
		if s.Median != best.Median && s.Median > best.Median == r.more() {
			best = s
		}
	}
	return best
}

// level is the least ratio of two different medians.
const level = 1.03

// Verdict compares castnet with the best of the others, in words.
func (r Row) Verdict() string {
	ours, base := r.Scores[0].Median, r.Best().Median
	if ours == base {
		return "level"
	}
	better := ours > base == r.more()
	times := max(ours, base) / min(ours, base)
	switch {
	case times < level:
		return "level"
	case math.IsInf(times, 0) && better:
		return "better"
	case math.IsInf(times, 0):
		return "worse"
	case better:
		return Figure(times) + " × better"
	}
	return Figure(times) + " × worse"
}

// Figure is a number with three significant digits, and commas.
func Figure(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		scale := math.Pow(10, math.Floor(math.Log10(a))-2)
		return commas(strconv.FormatFloat(math.Round(v/scale)*scale, 'f', 0, 64))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// commas separates the thousands of a whole number.
func commas(digits string) string {
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// scoreForm is the line of a contender in the notes of a run.
var scoreForm = regexp.MustCompile(
	`^([A-Za-z0-9-]+): (\S+) median=([0-9.]+) min=([0-9.]+) max=([0-9.]+) unit=(\S+) n=([0-9]+)$`)

// Parse reads the rows in the notes of runs. The last measurement of a row counts.
func Parse(notes io.Reader) ([]Row, error) {
	var rows []Row
	at := map[string]int{}
	lines := bufio.NewScanner(notes)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := scoreForm.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		var v [3]float64
		for i := range v {
			var err error
			v[i], err = strconv.ParseFloat(m[3+i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
		}
		n, err := strconv.Atoi(m[7])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		i, ok := at[m[1]]
		if !ok {
			if len(rows) == MaxRows {
				return nil, fmt.Errorf("more than %d rows", MaxRows)
			}
			i = len(rows)
			at[m[1]] = i
			rows = append(rows, Row{Name: m[1], Unit: m[6]})
		}
		if m[2] == Ours {
			rows[i].Scores = nil
		}
		rows[i].Scores = append(rows[i].Scores, Score{m[2], v[0], v[1], v[2], n})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the notes: %w", err)
	}
	for _, r := range rows {
		if len(r.Scores) < 2 || r.Scores[0].Name != Ours {
			return nil, fmt.Errorf("row %s: want castnet and a base, got %v", r.Name, r.Scores)
		}
	}
	return rows, nil
}
