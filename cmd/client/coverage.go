package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// reply is what one rank answered, or why it did not; its JSON names are stable.
type reply struct {
	Rank  int             `json:"rank"`
	Point string          `json:"point"`
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	MS    float64         `json:"ms,omitempty"` // since the cast was sent

	err     error
	skipped bool // the rank was not asked
}

// coverage says of every rank that was asked what became of it; its JSON names are stable.
type coverage struct {
	Asked          int     `json:"asked"`
	Answered       int     `json:"answered"`
	Failed         []reply `json:"failed"`
	FailedRegion   string  `json:"failed_region,omitempty"`
	Missing        []reply `json:"missing"`
	MissingRegion  string  `json:"missing_region,omitempty"`
	NotAsked       []reply `json:"not_asked,omitempty"` // the cast was stopped before
	NotAskedRegion string  `json:"not_asked_region,omitempty"`
	P50            float64 `json:"p50_ms,omitempty"` // of the answers; those that came together have one time
	P99            float64 `json:"p99_ms,omitempty"`

	together bool
}

// settle sums up the replies of a cast to the ranks of a place.
func (p place) settle(replies []reply) coverage {
	c := coverage{Failed: []reply{}, Missing: []reply{}}
	var times []float64
	for _, r := range replies {
		switch {
		case r.skipped:
			c.NotAsked = append(c.NotAsked, r)
		case r.err == nil:
			c.Answered++
			times = append(times, r.MS)
		case silent(r.err):
			c.Missing = append(c.Missing, r)
		default:
			c.Failed = append(c.Failed, r)
		}
	}
	slices.Sort(times)
	c.P50, c.P99 = quantile(times, 50), quantile(times, 99)
	c.Asked = len(replies) - len(c.NotAsked)
	return c.named(p.base)
}

// named fills in the regions.
func (c coverage) named(base shape.Extent) coverage {
	c.FailedRegion, c.MissingRegion, c.NotAskedRegion = regionOf(base, c.Failed), regionOf(base, c.Missing), regionOf(base, c.NotAsked)
	return c
}

// silent reports whether a rank is missing, and did not fail: nobody knows what it would have said.
func silent(err error) bool {
	e, ok := errors.AsType[*actor.Error](err)
	return ok && (e.Code == actor.CodeDeadline || e.Code == actor.CodeCanceled)
}

// quantile is the smallest of some sorted numbers that so many percent of them do not exceed.
func quantile(sorted []float64, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

// regionOf names ranks in the syntax of targets.
func regionOf(base shape.Extent, rs []reply) string {
	if len(rs) == 0 {
		return ""
	}
	ranks := make([]int, len(rs))
	for i, r := range rs {
		ranks[i] = r.Rank
	}
	return shape.Describe(base, ranks)
}

// String is the coverage in one line.
func (c coverage) String() string {
	s := fmt.Sprintf("asked %d · answered %d · failed %s · missing %s", c.Asked, c.Answered,
		named(len(c.Failed), c.FailedRegion), named(len(c.Missing), c.MissingRegion))
	if len(c.NotAsked) > 0 {
		s += " · not asked " + named(len(c.NotAsked), c.NotAskedRegion)
	}
	switch {
	case c.Answered > 0 && c.together:
		s += fmt.Sprintf(" · %s", millis(c.P50))
	case c.Answered > 0:
		s += fmt.Sprintf(" · p50 %s p99 %s", millis(c.P50), millis(c.P99))
	}
	return s
}

func named(n int, region string) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d [%s]", n, region)
}

func millis(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.2fs", ms/1000)
	}
	return fmt.Sprintf("%.1fms", ms)
}

func since(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }

// noteCoverage shows the coverage to people. A wrong question has none that is worth it.
func (a *app) noteCoverage(c coverage) {
	if c.wrongQuestion() == nil {
		a.note("%s", c)
	}
}

// wrongQuestion is the error when every rank says that there is no such thing, or that the message
// is not what it takes: then the question was wrong, and not the mesh.
func (c coverage) wrongQuestion() error {
	if len(c.Failed) == 0 || len(c.Failed) != c.Asked || !alike(c.Failed) {
		return nil
	}
	first := c.Failed[0]
	if code := cli.ExitCode(first.err); code == cli.ExitNotFound || code == cli.ExitUsage {
		return cli.WithCode(code, fmt.Errorf("no rank takes the message: %s", first.Error))
	}
	return nil
}

// verdict is the error of a cast that is not whole.
func (c coverage) verdict(base shape.Extent) error { return c.partial(base, "gave no value") }

// partial says what some ranks did, each reason once with the ranks it is true of.
func (c coverage) partial(base shape.Extent, did string) error {
	lost := c.lost()
	if len(lost) == 0 {
		return nil
	}
	if err := c.wrongQuestion(); err != nil {
		return err
	}
	for i := range lost {
		if lost[i].skipped {
			lost[i].Error = "not asked: " + lost[i].Error
		}
	}
	what := fmt.Sprintf("%d of %d ranks %s", len(lost), c.Asked+len(c.NotAsked), did)
	return cli.WithCode(cli.ExitPartial, errors.New(what+":"+reasons(base, lost)))
}

// lost are the ranks without a value.
func (c coverage) lost() []reply { return slices.Concat(c.Failed, c.Missing, c.NotAsked) }

// alike reports whether all ranks failed in the same way.
func alike(rs []reply) bool {
	return !slices.ContainsFunc(rs, func(r reply) bool { return codeOf(r.err) != codeOf(rs[0].err) })
}

func codeOf(err error) actor.Code {
	if e, ok := errors.AsType[*actor.Error](err); ok {
		return e.Code
	}
	return 0
}

// failedReply is a rank without a value. The address is left out of the reason: the point says it.
func (p place) failedReply(view int, err error) reply {
	text := err.Error()
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Text != "" {
		text = e.Text
		if id, err := subjects.ParseActorID(e.Actor); err == nil {
			text = strings.ReplaceAll(text, "proc "+id.Proc.String(), "the proc")
		}
	}
	return reply{Rank: p.rank(view), Point: p.point(view), Error: strings.TrimSpace(text), err: err}
}

// skippedReply is a rank that was not asked.
func (p place) skippedReply(view int, why error) reply {
	return reply{Rank: p.rank(view), Point: p.point(view), Error: why.Error(), err: why, skipped: true}
}

// replyOf reads what one rank answered.
func (p place) replyOf(view int, r cast.Reply[any]) reply {
	raw, err := json.RawMessage(nil), r.Err
	if err == nil {
		raw, err = encodeValue(r.Value)
	}
	if err != nil {
		return p.failedReply(view, err)
	}
	return reply{Rank: p.rank(view), Point: p.point(view), Value: raw}
}

// fromCast reads the coverage of a cast to so many ranks whose answers come together: an error's when it is
// not whole. A cast that was not sent is an error of its own.
func (p place) fromCast(err error, asked int, ms float64) (coverage, error) {
	partial, ok := errors.AsType[*cast.CoverageError](err)
	if err != nil && !ok {
		return coverage{}, err
	}
	c := coverage{Asked: asked, Answered: asked, Failed: []reply{}, Missing: []reply{}, P50: ms, P99: ms, together: true}
	if !ok {
		return c, nil
	}
	c.Asked, c.Answered = partial.Coverage.Asked, partial.Coverage.Answered
	for _, f := range partial.Coverage.Failed {
		c.Failed = append(c.Failed, p.failedReply(f.Rank, f.Err))
	}
	for _, f := range partial.Coverage.Missing {
		c.Missing = append(c.Missing, p.failedReply(f.Rank, f.Err))
	}
	for _, f := range partial.Coverage.NotAsked {
		c.NotAsked = append(c.NotAsked, p.skippedReply(f.Rank, f.Err))
	}
	return c.named(p.base), nil
}
