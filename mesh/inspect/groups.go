package inspect

import (
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/shape"
)

// Group is the ranks with one outcome.
type Group[T any, K comparable] struct {
	Outcome K
	Items   []T // in the given order
	Ranks   []int
	Region  string // of the ranks, in the syntax of shape.Select
}

// GroupRanks groups items by their outcome, in the order of first appearance. An item with a
// negative rank is no part of the region.
func GroupRanks[T any, K comparable](
	base shape.Extent, items []T, rank func(T) int, outcome func(T) K,
) []Group[T, K] {
	at := map[K]int{}
	var groups []Group[T, K]
	for _, item := range items {
		key := outcome(item)
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key] = i
			groups = append(groups, Group[T, K]{Outcome: key})
		}
		g := &groups[i]
		g.Items = append(g.Items, item)
		if r := rank(item); r >= 0 {
			g.Ranks = append(g.Ranks, r)
		}
	}
	for i := range groups {
		groups[i].Region = shape.Describe(base, groups[i].Ranks)
	}
	return groups
}

// MaxReasons bounds the reasons in a text.
const MaxReasons = 10

// Reasons lists why ranks failed, each reason once with its region. Ten thousand equal failures are
// one line.
func Reasons[T any](groups []Group[T, string]) string {
	if len(groups) == 1 {
		return fmt.Sprintf(" [%s] %s", groups[0].Region, groups[0].Outcome)
	}
	var b strings.Builder
	for i, g := range groups {
		if i == MaxReasons {
			fmt.Fprintf(&b, "\n  and %d more reasons", len(groups)-i)
			break
		}
		fmt.Fprintf(&b, "\n  [%s] %s", g.Region, text.Shorten(g.Outcome, 200))
	}
	return b.String()
}
