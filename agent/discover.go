package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// Hosts asks every live host to introduce itself, and returns those that did before it was quiet
// for so long, ordered by label. No host is an empty answer.
func Hosts(ctx context.Context, b *bus.Bus, space subjects.Space, quiet time.Duration) ([]HostInfo, error) {
	var out []HostInfo
	request := bus.Msg{Subject: space.Host(subjects.Any, Info.Name(), subjects.Anon)}
	for m, err := range b.Control().RequestMany(ctx, request, quiet) {
		if err != nil {
			return nil, fmt.Errorf("find hosts: %w", err)
		}
		if m.Header.Get(actor.HeaderError) != "" {
			continue // a host that is stopping says so: it is none any more
		}
		var h HostInfo
		if err := json.Unmarshal(m.Data, &h); err != nil || !h.ID.IsValid() {
			return nil, fmt.Errorf("find hosts: an answer that is no host: %.100q", m.Data)
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b HostInfo) int {
		if c := strings.Compare(a.Label, b.Label); c != 0 {
			return c
		}
		return a.ID.Compare(b.ID)
	})
	return out, nil
}
