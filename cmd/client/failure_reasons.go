package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// maxReasons bounds the reasons in an error.
const maxReasons = 10

// reasons lists why ranks failed, each reason once with its region. Ten thousand equal failures are
// one line.
func reasons(base shape.Extent, lost []reply) string {
	by := map[string][]reply{}
	var order []string
	for _, r := range lost {
		if by[r.Error] == nil {
			order = append(order, r.Error)
		}
		by[r.Error] = append(by[r.Error], r)
	}
	if len(order) == 1 {
		return fmt.Sprintf(" [%s] %s", describeRegion(base, lost), order[0])
	}
	var b strings.Builder
	for i, reason := range order {
		if i == maxReasons {
			fmt.Fprintf(&b, "\n  and %d more reasons", len(order)-i)
			break
		}
		fmt.Fprintf(&b, "\n  [%s] %s", describeRegion(base, by[reason]), shorten(reason, 200))
	}
	return b.String()
}

// explainSpawnError formats a failed spawn in the same way.
func explainSpawnError(err error) error {
	failed, ok := errors.AsType[*mesh.SpawnError](err)
	if !ok || len(failed.Failed) == 0 {
		return err
	}
	lost := make([]reply, len(failed.Failed))
	for i, f := range failed.Failed {
		lost[i] = reply{Rank: f.Rank, Error: stripActorID(f.Status.Reason)}
		if f.Status.Reason == "" {
			lost[i].Error = f.Status.String()
		}
	}
	base := failed.Failed[0].Point.Extent()
	return fmt.Errorf("%d of %d ranks of %s did not start%s:%s", len(lost), failed.Ranks, failed.Mesh, hostsSuffix(failed.Failed), reasons(base, lost))
}

// hostsSuffix names the hosts of ranks.
func hostsSuffix(ranks []mesh.RankStatus) string {
	var hosts []string
	for _, r := range ranks {
		if r.Host != "" && !slices.Contains(hosts, r.Host) {
			hosts = append(hosts, r.Host)
		}
	}
	n := len(hosts)
	if n == 0 {
		return ""
	}
	if n > maxReasons {
		return fmt.Sprintf(" on %s and %d more hosts", strings.Join(hosts[:maxReasons], ", "), n-maxReasons)
	}
	return " on " + strings.Join(hosts, ", ")
}

// stripActorID removes a leading actor ID from a reason, because the region names the actor.
func stripActorID(reason string) string {
	id, rest, ok := strings.Cut(reason, ": ")
	if _, err := subjects.ParseActorID(id); !ok || err != nil {
		return reason
	}
	return rest
}
