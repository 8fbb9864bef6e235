package system

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
	// nameQueryPause is the time until the next query after a refusal, because refused callers
	// repeat their requests.
	nameQueryPause = time.Second
)

// queryNames queries the hosts once for all waiting names (WORLD-17).
func (c *Controller) queryNames(ctx *actor.Context) {
	if c.queryingNames || len(c.nameQueue) == 0 {
		return
	}
	n := min(len(c.nameQueue), maxNamesPerQuery)
	all := c.nameQueue[:n]
	c.nameQueue = c.nameQueue[n:]
	c.queryingNames = true
	p := ctx.Proc()
	quiet := config.DiscoveryQuietPeriod.Get(c.service.opts.Config)
	early := c.tooEarlyError()
	ctx.Go(func(life context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(life, inventoryTimeout)
		defer cancel()
		inUse, err := NamesInUse(work, p, quiet)
		if err != nil {
			err = fmt.Errorf("cannot ask all hosts for the holder of the name: %w", err)
		}
		return func(ctx *actor.Context) {
			events := make([]any, len(all))
			pause := time.Duration(0)
			for i, name := range all {
				e := nameResult{name: name, holder: findHolder(inUse, name), err: err, tooEarly: early}
				if e.refusal(nil) != nil {
					pause = nameQueryPause
				}
				events[i] = e
			}
			c.handle(ctx, events...)
			ctx.After(pause, func(ctx *actor.Context) {
				c.queryingNames = false
				c.queryNames(ctx)
			})
		}
	})
}

// tooEarlyError returns an error while unsaved reservations of the previous controller may still be
// valid.
func (c *Controller) tooEarlyError() error {
	if !c.directSuccessor || c.service.store != nil {
		return nil
	}
	left := time.Until(c.startedAt.Add(c.st.reservation)).Round(time.Second)
	if left <= 0 {
		return nil
	}
	return fmt.Errorf("the former system controller may have reserved the name: try again in %s", left)
}

// findHolder returns the live holder of a name, a mesh before a world; nil: none.
func findHolder(inUse []NameTakenError, name string) (holder *NameTakenError) {
	for i, m := range inUse {
		if m.Name == name && (holder == nil || m.Kind == kindMesh) {
			holder = &inUse[i]
		}
	}
	return holder
}
