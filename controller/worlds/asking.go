package worlds

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
)

const (
	// namesAtOnce is how many names are taken at a time.
	namesAtOnce = 1 << 10
	// refusedRest is between two looks at all hosts when somebody was refused, who will ask again.
	refusedRest = time.Second
)

// askNames takes the names that wait, and looks once at what the hosts have for all of them (WORLD-17).
func (c *Controller) askNames(ctx *actor.Context) {
	if c.asking || len(c.asked) == 0 {
		return
	}
	n := min(len(c.asked), namesAtOnce)
	all := c.asked[:n]
	c.asked, c.asking = c.asked[n:], true
	p, quiet := ctx.Proc(), config.DiscoveryQuiet.Get(c.service.opts.Config)
	ctx.Go(func(life context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(life, lookWithin)
		defer cancel()
		held, errs := takeAll(work, life, p, all)
		living, err := Living(work, p, quiet)
		return func(ctx *actor.Context) {
			rest := time.Duration(0)
			for i, name := range all {
				if errs[i] == nil {
					errs[i] = holderAmong(living, err, name)
				}
				if errs[i] != nil {
					rest = refusedRest
				}
			}
			c.named(ctx, all, errs, held)
			ctx.After(rest, func(ctx *actor.Context) {
				c.asking = false
				c.askNames(ctx)
			})
		}
	})
}

// named takes what came of asking for some names, which are held until the worlds are saved that have them now, and no
// longer: who has been told of one of those, and who takes a name afterwards, finds that the world has it (Holder).
func (c *Controller) named(ctx *actor.Context, all []string, errs []error, held freed) {
	c.queue = append(c.queue, held) // before the answers; saves, of whatever is heard at once, go before all (pump)
	events := make([]any, len(all))
	for i, name := range all {
		events[i] = named{name, errs[i]}
	}
	c.hear(ctx, events...)
}

// takeAll takes some names, until what it returns is called, or life is over.
func takeAll(ctx, life context.Context, p *actor.Proc, all []string) (held []func(), errs []error) {
	held, errs = make([]func(), len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for i, name := range all {
		wg.Go(func() {
			var release func()
			if release, errs[i] = TakeName(ctx, p, name, func(context.Context) error { return nil }); errs[i] != nil {
				held[i] = func() {}
				return
			}
			over := context.AfterFunc(life, release)
			held[i] = func() {
				over()
				release()
			}
		})
	}
	wg.Wait()
	return held, errs
}

// holderAmong is why a world cannot have a name: a mesh that lives has it, or not all hosts have said what they have.
func holderAmong(living []NameTakenError, silent error, name string) error {
	for _, m := range living {
		if m.Name == name && m.Kind == kindMesh {
			return &m
		}
	}
	if silent != nil {
		return fmt.Errorf("world %s: is its name free? %w", name, silent)
	}
	return nil
}

// freed are names that are held no longer.
type freed []func()

// answerHolders answers who asks for the holder of a name, on the pump.
func (c *Controller) answerHolders(p *actor.Proc) error {
	where, err := holders()
	if err != nil {
		return err
	}
	return p.Subscribe(p.Space().PortsOf(where), func(m bus.Msg) {
		var said []byte
		if h, ok := c.holders.Load(string(m.Data)); ok {
			said, _ = json.Marshal(h) // texts
		}
		_ = p.Bus().Data().Publish(m.Reply, said) // an answer that is lost is none
	})
}
