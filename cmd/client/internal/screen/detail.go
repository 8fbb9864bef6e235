package screen

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/text"
)

// visibleDetail returns the lines of the open rank on the screen.
func (s state) visibleDetail() []string {
	lines := s.detailLines()
	from := max(0, min(s.detail.scroll, len(lines)-1))
	return lines[from:]
}

// detailLines describe the open rank: its process, its actors and its last failure.
func (s state) detailLines() []string {
	d := s.detail
	rank := fmt.Sprintf("%s rank %d", text.Label(d.id.mesh), d.id.rank)
	if d.info == nil {
		state := "asking its host, its process and its owner"
		if d.err != "" {
			state = "no answer: " + clean(d.err)
		}
		return []string{paint(bold, clean(rank)), paint(faint, state)}
	}
	i := d.info
	lines := []string{
		paint(bold, clean(rank)+" ["+clean(i.Point)+"]") + "  " + s.tintStatus(i.Status, i.Status) +
			note(i.Note()), s.processLine(), s.counterLine(), "",
	}
	if d.err != "" {
		lines = append(lines, s.tint(output.Red, "old: "+clean(d.err)))
	}
	lines = append(lines, paint(bold, "actors"))
	if i.Missing != "" {
		lines = append(lines, s.tint(output.Yellow, "  the process does not answer: "+clean(i.Missing)))
	}
	if len(i.Actors) == 0 && i.Missing == "" {
		lines = append(lines, paint(faint, "  none"))
	}
	for _, a := range i.Actors {
		name := clean(text.Label(a.Actor)) + " " + s.tintStatus(a.Status, a.Status)
		lines = append(lines, fmt.Sprintf("  %s  %d queued  %s handled%s",
			name, a.Queued, count(a.Handled), running(a.Current)))
		lines = append(lines, s.wrap("type "+a.Type, "    ")...)
		for _, endpoint := range a.Endpoints {
			lines = append(lines, s.wrap(endpoint, "    · ")...)
		}
		if a.Reason != "" {
			lines = append(lines, s.wrap(text.StripActorID(a.Reason), "    ")...)
		}
	}
	return append(lines, s.failureLines()...)
}

// note adds remarks to a status.
func note(s string) string {
	if s == "" {
		return ""
	}
	return ": " + clean(s)
}

// running names the endpoint of a running handler.
func running(endpoint string) string {
	if endpoint == "" {
		return ""
	}
	return "  in " + clean(endpoint)
}

// processLine is about the process of the open rank.
func (s state) processLine() string {
	i := s.detail.info
	parts := []string{"host " + text.HostLabel(i.Host)}
	if i.PID != 0 {
		parts = append(parts, "pid "+strconv.Itoa(i.PID))
	}
	if i.Started != nil {
		parts = append(parts, "started "+text.Age(s.now.Sub(*i.Started))+" ago")
	}
	parts = append(parts, text.Pluralize(i.Generation, "restart"))
	if exit := i.ExitText(); exit != "" {
		parts = append(parts, "exit "+exit)
	}
	return clean(strings.Join(parts, "  "))
}

// counterLine has the counters of the last sample.
func (s state) counterLine() string {
	for i := range s.sample.Procs {
		p := &s.sample.Procs[i]
		if p.Mesh != s.detail.id.mesh || p.Rank != s.detail.id.rank {
			continue
		}
		l := fmt.Sprintf("cpu %.0f%%  mem %s", p.CPU, text.Size(p.Memory))
		if p.Unasked || p.Silent {
			return l
		}
		return l + fmt.Sprintf("  %s msg/s  %d queued  %s handled  latency %s",
			formatRate(p.Rate), p.Queued, count(p.Handled), formatLatency(p.Latency))
	}
	return paint(faint, "no counters: it is not in the last sample")
}

// failureLines are the last failure with its chain of causes.
func (s state) failureLines() []string {
	f := s.detail.info.Failure
	if f == nil {
		return []string{"", paint(bold, "last failure"), paint(faint, "  none is known")}
	}
	lines := []string{"", paint(bold, "last failure") + " at " + s.clock(f.At) + ", " +
		text.Age(s.now.Sub(f.At)) + " ago"}
	for _, l := range s.wrap(f.Reason, "  ") {
		lines = append(lines, s.tint(output.Red, l))
	}
	for i, cause := range f.Causes {
		lines = append(lines, s.wrap("because "+cause, strings.Repeat("  ", min(i, 4)+2))...)
	}
	if len(f.StderrTail) > 0 {
		lines = append(lines, paint(faint, "  its last output:"))
	}
	for _, l := range f.StderrTail {
		lines = append(lines, s.wrap(l, "  │ ")...)
	}
	return lines
}

// wrap breaks a text into lines with an indent.
func (s state) wrap(text, indent string) (lines []string) {
	room := max(10, s.width-ansi.StringWidth(indent))
	for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		for part := range strings.SplitSeq(ansi.Wrap(clean(l), room, ""), "\n") {
			lines = append(lines, indent+part)
		}
	}
	return lines
}
