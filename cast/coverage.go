package cast

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// Failure is a rank that answered with an error or is known to be gone.
type Failure struct {
	Rank  int // in the region that was cast to
	Point shape.Point
	Err   error
}

// Coverage is the outcome of every rank of a cast, and the ranks that were not asked.
type Coverage struct {
	Asked    int // Answered, Failed and Missing
	Answered int
	Failed   []Failure // in rank order
	Missing  []Failure // in rank order: silent until the deadline, or answers that were lost on the way
	NotAsked []Failure // in rank order: the cast was stopped before, see Throttled; none of them has the message

	base   shape.Extent // of the whole mesh: what regions are named in
	region shape.Region
}

// Complete reports whether every rank was asked and answered with a value.
func (c Coverage) Complete() bool { return c.Answered == c.Asked && len(c.NotAsked) == 0 }

// FailedRegion names the failed ranks in the syntax of regions; "" when there are none.
func (c Coverage) FailedRegion() string { return c.describe(c.Failed) }

// MissingRegion names the missing ranks likewise.
func (c Coverage) MissingRegion() string { return c.describe(c.Missing) }

// NotAskedRegion names the ranks in NotAsked likewise.
func (c Coverage) NotAskedRegion() string { return c.describe(c.NotAsked) }

func (c Coverage) describe(fs []Failure) string {
	var ranks []int
	for _, f := range fs {
		if b, err := c.region.BaseRank(f.Rank); err == nil {
			ranks = append(ranks, b)
		}
	}
	if len(ranks) == 0 {
		return ""
	}
	return shape.Describe(c.base, ranks)
}

// pointOf is the point of a failed rank in the whole mesh.
func (c Coverage) pointOf(f Failure) shape.Point {
	rank, err := c.region.BaseRank(f.Rank)
	if err != nil {
		return f.Point
	}
	p, err := c.base.Point(rank)
	if err != nil {
		return f.Point
	}
	return p
}

// String is the coverage in one line.
func (c Coverage) String() string {
	s := fmt.Sprintf("asked %d · answered %d · failed %d", c.Asked, c.Answered, len(c.Failed))
	if len(c.Failed) > 0 {
		s += " [" + c.FailedRegion() + "]"
	}
	s += fmt.Sprintf(" · missing %d", len(c.Missing))
	if len(c.Missing) > 0 {
		s += " [" + c.MissingRegion() + "]"
	}
	if len(c.NotAsked) > 0 {
		s += fmt.Sprintf(" · not asked %d [%s]", len(c.NotAsked), c.NotAskedRegion())
	}
	return s
}

// maxReasons bounds how many reasons an error spells out; the coverage has them all.
const maxReasons = 10

// CoverageError is returned by verbs that wait when not every rank answered with a value.
type CoverageError struct {
	Mesh, Actor, Endpoint string
	Coverage              Coverage
}

// Error lists each reason once, with its ranks of the whole mesh.
func (e *CoverageError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cast %s to %s on %s: %s", e.Endpoint, e.Actor, e.Mesh, e.Coverage)
	with := map[string][]Failure{}
	var reasons []string // in the order of their first ranks
	for _, f := range slices.Concat(e.Coverage.Failed, e.Coverage.Missing) {
		why := reason(f.Err)
		if with[why] == nil {
			reasons = append(reasons, why)
		}
		with[why] = append(with[why], f)
	}
	for i, why := range reasons {
		if i == maxReasons {
			fmt.Fprintf(&b, "; and %d more reasons", len(reasons)-maxReasons)
			break
		}
		if fs := with[why]; len(fs) > 1 {
			fmt.Fprintf(&b, "; %d ranks [%s]: %s", len(fs), e.Coverage.describe(fs), why)
		} else {
			p := e.Coverage.pointOf(fs[0])
			fmt.Fprintf(&b, "; rank %d (%s): %s", p.Rank(), p, why)
		}
	}
	if n := e.Coverage.NotAsked; len(n) > 0 {
		fmt.Fprintf(&b, "; %s", n[0].Err) // one reason for all
	}
	return b.String()
}

// reason is an error without the address, which the rank already gives.
func reason(err error) string {
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Text != "" {
		return e.Text
	}
	return err.Error()
}

// Unwrap lets errors.Is find the reasons of single ranks.
func (e *CoverageError) Unwrap() []error {
	var errs []error
	for _, f := range slices.Concat(e.Coverage.Failed, e.Coverage.Missing, e.Coverage.NotAsked) {
		errs = append(errs, f.Err)
	}
	return errs
}
