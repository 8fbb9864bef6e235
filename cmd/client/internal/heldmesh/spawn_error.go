package heldmesh

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/cmd/client/internal/casting"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
)

// explainSpawnError formats a failed spawn in the same way.
func explainSpawnError(err error) error {
	failed, ok := errors.AsType[*mesh.SpawnError](err)
	if !ok || len(failed.Failed) == 0 {
		return err
	}
	lost := make([]casting.Reply, len(failed.Failed))
	for i, f := range failed.Failed {
		lost[i] = casting.Reply{Rank: f.Rank, Error: text.StripActorID(f.Status.Reason)}
		if f.Status.Reason == "" {
			lost[i].Error = f.Status.String()
		}
	}
	base := failed.Failed[0].Point.Extent()
	return fmt.Errorf("%d of %d ranks of %s did not start%s:%s", len(lost), failed.Ranks, failed.Mesh, hostsSuffix(failed.Failed), casting.Reasons(base, lost))
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
	if n > casting.MaxReasons {
		return fmt.Sprintf(" on %s and %d more hosts", strings.Join(hosts[:casting.MaxReasons], ", "), n-casting.MaxReasons)
	}
	return " on " + strings.Join(hosts, ", ")
}
