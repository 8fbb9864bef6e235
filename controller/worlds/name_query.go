package worlds

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/config"
)

const (
	// maxNamesPerQuery bounds the names in one query of the hosts.
	maxNamesPerQuery = 1 << 10
	// nameQueryPause is the time between two queries of all hosts, if refused callers will ask
	// again.
	nameQueryPause = time.Second
)

// queryNames queries the hosts once for all waiting names (WORLD-17).
func (c *Controller) queryNames(ctx *actor.Context) {
	if c.queryingNames || len(c.nameQueue) == 0 {
		return
	}
	n := min(len(c.nameQueue), maxNamesPerQuery)
	all := c.nameQueue[:n]
	c.nameQueue, c.queryingNames = c.nameQueue[n:], true
	p, quiet, early := ctx.Proc(), config.DiscoveryQuietPeriod.Get(c.service.opts.Config), c.tooEarlyError()
	ctx.Go(func(life context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(life, inventoryTimeout)
		defer cancel()
		living, err := NamesInUse(work, p, quiet)
		if err != nil {
			err = fmt.Errorf("not all hosts have said whether the name is free: %w", err)
		}
		return func(ctx *actor.Context) {
			events, rest := make([]any, len(all)), time.Duration(0)
			for i, name := range all {
				e := nameResult{name: name, holder: findHolder(living, name), err: err, tooEarly: early}
				if e.refusal(nil) != nil {
					rest = nameQueryPause
				}
				events[i] = e
			}
			c.handle(ctx, events...)
			ctx.After(rest, func(ctx *actor.Context) {
				c.queryingNames = false
				c.queryNames(ctx)
			})
		}
	})
}

// tooEarlyError is an error while the previous controller's unsaved reservations may still be
// valid.
func (c *Controller) tooEarlyError() error {
	if !c.directSuccessor || c.service.store != nil {
		return nil
	}
	left := time.Until(c.startedAt.Add(c.st.reservation)).Round(time.Second)
	if left <= 0 {
		return nil
	}
	return fmt.Errorf("the system controller has just begun, and another one may have given the name away: try again in %s", left)
}

// findHolder is the live holder of a name, a mesh before a world; nil: none.
func findHolder(living []NameTakenError, name string) (holder *NameTakenError) {
	for i, m := range living {
		if m.Name == name && (holder == nil || m.Kind == kindMesh) {
			holder = &living[i]
		}
	}
	return holder
}
