package heldmesh

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// ExplainSpawnError formats a failed spawn in the same way.
func ExplainSpawnError(err error) error {
	failed, ok := errors.AsType[*mesh.SpawnError](err)
	if !ok || len(failed.Failed) == 0 {
		return err
	}
	rank := func(s mesh.RankStatus) int { return s.Rank }
	reason := func(s mesh.RankStatus) string {
		return text.StripActorID(cmp.Or(s.Status.Reason, s.Status.String()))
	}
	groups := inspect.GroupRanks(failed.Failed[0].Point.Extent(), failed.Failed, rank, reason)
	return fmt.Errorf("%d of %d ranks of %s did not start%s:%s", len(failed.Failed), failed.Ranks, failed.Mesh,
		hostsSuffix(failed.Failed), inspect.Reasons(groups))
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
	if n > inspect.MaxReasons {
		return fmt.Sprintf(
			" on %s and %d more hosts", strings.Join(hosts[:inspect.MaxReasons], ", "), n-inspect.MaxReasons,
		)
	}
	return " on " + strings.Join(hosts, ", ")
}
