package worlds

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/config"
)

const (
	// namesAtOnce is how many names are asked for in one look at the hosts.
	namesAtOnce = 1 << 10
	// refusedRest is between two looks at all hosts when somebody was refused, who will ask again.
	refusedRest = time.Second
)

// askNames looks once at what the hosts have, for all the names that wait (WORLD-17).
func (c *Controller) askNames(ctx *actor.Context) {
	if c.asking || len(c.asked) == 0 {
		return
	}
	n := min(len(c.asked), namesAtOnce)
	all := c.asked[:n]
	c.asked, c.asking = c.asked[n:], true
	p, quiet, early := ctx.Proc(), config.DiscoveryQuiet.Get(c.service.opts.Config), c.early()
	ctx.Go(func(life context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(life, lookWithin)
		defer cancel()
		living, err := Living(work, p, quiet)
		if err != nil {
			err = fmt.Errorf("not all hosts have said whether the name is free: %w", err)
		}
		return func(ctx *actor.Context) {
			events, rest := make([]any, len(all)), time.Duration(0)
			for i, name := range all {
				e := named{name: name, holder: holderAmong(living, name), err: err, early: early}
				if e.refuses(nil) != nil {
					rest = refusedRest
				}
				events[i] = e
			}
			c.hear(ctx, events...)
			ctx.After(rest, func(ctx *actor.Context) {
				c.asking = false
				c.askNames(ctx)
			})
		}
	})
}

// early is an error while the controller before this one may have reserved names that nobody has saved.
func (c *Controller) early() error {
	if !c.follows || c.service.store != nil {
		return nil
	}
	left := time.Until(c.began.Add(c.st.reservation)).Round(time.Second)
	if left <= 0 {
		return nil
	}
	return fmt.Errorf("the system controller has just begun, and another one may have given the name away: try again in %s", left)
}

// holderAmong is who lives and has a name, a mesh before a world; nil: nobody.
func holderAmong(living []NameTakenError, name string) (holder *NameTakenError) {
	for i, m := range living {
		if m.Name == name && (holder == nil || m.Kind == kindMesh) {
			holder = &living[i]
		}
	}
	return holder
}
