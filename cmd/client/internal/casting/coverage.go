package casting

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Reply is the reply of one rank, or the reason for its absence. Its JSON names are stable.
type Reply struct {
	Rank  int             `json:"rank"`
	Point string          `json:"point"`
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	MS    float64         `json:"ms,omitempty"` // since the cast

	err     error
	outcome outcome
}

// Coverage is the result of every addressed rank. Its JSON names are stable.
type Coverage struct {
	Asked          int     `json:"asked"`
	Answered       int     `json:"answered"`
	Failed         []Reply `json:"failed"`
	FailedRegion   string  `json:"failed_region,omitempty"`
	Missing        []Reply `json:"missing"`
	MissingRegion  string  `json:"missing_region,omitempty"`
	NotAsked       []Reply `json:"not_asked,omitempty"` // the cast was stopped before
	NotAskedRegion string  `json:"not_asked_region,omitempty"`
	P50            float64 `json:"p50_ms,omitempty"` // of the reply times; gathered replies share one time
	P99            float64 `json:"p99_ms,omitempty"`

	singleTime bool
}

// outcome is the kind of a reply.
type outcome int

const (
	answered outcome = iota // with a value
	failed                  // with an error
	missing                 // not at all
	notAsked                // the cast was stopped before
)

// summarize sums up the replies to a cast.
func summarize(p target.Resolved, replies []Reply) Coverage {
	c := Coverage{Failed: []Reply{}, Missing: []Reply{}, Asked: len(replies)}
	outcomeOf := func(r Reply) outcome { return r.outcome }
	for _, g := range inspect.GroupRanks(p.Base, replies, rankOf, outcomeOf) {
		switch g.Outcome {
		case answered:
			c.Answered = len(g.Items)
			times := make([]float64, len(g.Items))
			for i, r := range g.Items {
				times[i] = r.MS
			}
			slices.Sort(times)
			c.P50 = quantile(times, 50)
			c.P99 = quantile(times, 99)
		case failed:
			c.Failed = g.Items
			c.FailedRegion = g.Region
		case missing:
			c.Missing = g.Items
			c.MissingRegion = g.Region
		case notAsked:
			c.NotAsked = g.Items
			c.NotAskedRegion = g.Region
			c.Asked -= len(g.Items)
		}
	}
	return c
}

func rankOf(r Reply) int { return r.Rank }

// isMissing reports whether a rank is missing: it neither replied nor failed.
func isMissing(err error) bool {
	e, ok := errors.AsType[*actor.Error](err)
	return ok && (e.Code == actor.CodeDeadline || e.Code == actor.CodeCanceled)
}

// quantile returns the smallest of the sorted numbers that is at least as large as the given
// percentage of them.
func quantile(sorted []float64, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

// String formats the coverage in one line.
func (c Coverage) String() string {
	s := fmt.Sprintf("asked %d · answered %d · failed %s · missing %s", c.Asked, c.Answered,
		formatRanks(len(c.Failed), c.FailedRegion), formatRanks(len(c.Missing), c.MissingRegion))
	if len(c.NotAsked) > 0 {
		s += " · not asked " + formatRanks(len(c.NotAsked), c.NotAskedRegion)
	}
	if c.Answered > 0 && c.singleTime {
		s += fmt.Sprintf(" · %s", formatMillis(c.P50))
	} else if c.Answered > 0 {
		s += fmt.Sprintf(" · p50 %s p99 %s", formatMillis(c.P50), formatMillis(c.P99))
	}
	return s
}

func formatRanks(n int, region string) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d [%s]", n, region)
}

func formatMillis(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.2fs", ms/1000)
	}
	return fmt.Sprintf("%.1fms", ms)
}

func millisSince(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }

// noteCoverage prints the coverage to people, except for a wrong request.
func noteCoverage(out *output.Printer, c Coverage) {
	if c.requestError() == nil {
		out.Notef("%s", c)
	}
}

// requestError returns an error if every rank reports an unknown name or a bad message, because
// then the request was wrong.
func (c Coverage) requestError() error {
	if len(c.Failed) == 0 || len(c.Failed) != c.Asked || !sameCode(c.Failed) {
		return nil
	}
	first := c.Failed[0]
	if code := cli.ExitCode(first.err); code == cli.ExitNotFound || code == cli.ExitUsage {
		return cli.WithCode(code, fmt.Errorf("no rank takes the message: %s", first.Error))
	}
	return nil
}

// asError returns the error of a partial cast.
func (c Coverage) asError(base shape.Extent) error { return c.partialError(base, "gave no value") }

// partialError lists the failures of ranks, each reason once with its ranks.
func (c Coverage) partialError(base shape.Extent, did string) error {
	lost := c.withoutValue()
	if len(lost) == 0 {
		return nil
	}
	if err := c.requestError(); err != nil {
		return err
	}
	for i := range lost {
		if lost[i].outcome == notAsked {
			lost[i].Error = "not asked: " + lost[i].Error
		}
	}
	what := fmt.Sprintf("%d of %d ranks %s", len(lost), c.Asked+len(c.NotAsked), did)
	reasons := inspect.GroupRanks(base, lost, rankOf, func(r Reply) string { return r.Error })
	return cli.WithCode(cli.ExitPartial, errors.New(what+":"+inspect.Reasons(reasons)))
}

// withoutValue returns the ranks without a value.
func (c Coverage) withoutValue() []Reply { return slices.Concat(c.Failed, c.Missing, c.NotAsked) }

// sameCode reports whether all ranks failed with one code.
func sameCode(rs []Reply) bool {
	return !slices.ContainsFunc(rs, func(r Reply) bool { return codeOf(r.err) != codeOf(rs[0].err) })
}

func codeOf(err error) actor.Code {
	if e, ok := errors.AsType[*actor.Error](err); ok {
		return e.Code
	}
	return 0
}

// failedReply is a rank without a value. The reason omits the address, because the point names the
// rank.
func failedReply(p target.Resolved, view int, err error) Reply {
	text := err.Error()
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Text != "" {
		text = e.Text
		if id, err := subjects.ParseActorID(e.Actor); err == nil {
			text = strings.ReplaceAll(text, "proc "+id.Proc.String(), "the proc")
		}
	}
	r := Reply{
		Rank: p.Rank(view), Point: p.Point(view), Error: strings.TrimSpace(text), err: err, outcome: failed,
	}
	if isMissing(err) {
		r.outcome = missing
	}
	return r
}

// skippedReply is a rank to which the cast was not sent.
func skippedReply(p target.Resolved, view int, why error) Reply {
	return Reply{Rank: p.Rank(view), Point: p.Point(view), Error: why.Error(), err: why, outcome: notAsked}
}

// newReply converts the reply of one rank.
func newReply(p target.Resolved, view int, r cast.Reply[any]) Reply {
	var raw json.RawMessage
	err := r.Err
	if err == nil {
		raw, err = target.EncodeValue(r.Value)
	}
	if err != nil {
		return failedReply(p, view, err)
	}
	return Reply{Rank: p.Rank(view), Point: p.Point(view), Value: raw}
}

// fromCast returns the coverage of a cast with gathered replies, from its error. A cast that was
// not sent is a separate error.
func fromCast(p target.Resolved, err error, asked int, ms float64) (Coverage, error) {
	partial, ok := errors.AsType[*cast.CoverageError](err)
	if err != nil && !ok {
		return Coverage{}, err
	}
	whole := cast.Coverage{Asked: asked, Answered: asked}
	if ok {
		whole = partial.Coverage
	}
	var lost []Reply
	add := func(ranks []cast.Failure, as outcome) {
		for _, f := range ranks {
			r := failedReply(p, f.Rank, f.Err)
			r.outcome = as
			lost = append(lost, r)
		}
	}
	add(whole.Failed, failed)
	add(whole.Missing, missing)
	for _, f := range whole.NotAsked {
		lost = append(lost, skippedReply(p, f.Rank, f.Err))
	}
	c := summarize(p, lost)
	c.Asked = whole.Asked
	c.Answered = whole.Answered
	c.P50 = ms
	c.P99 = ms
	c.singleTime = true
	return c, nil
}
