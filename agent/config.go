package agent

import (
	"cmp"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
)

// Settings asks an agent for the configuration of its process: every key, and where its value is from.
// Hosts and procs serve it.
var Settings = actor.NewEndpoint[Agent, actor.None, []config.Entry]("settings")

// configKey is where a proc keeps its configuration.
type configKey struct{}

// SetConfig makes c the configuration of a proc: what runs in it asks ConfigOf.
func SetConfig(p *actor.Proc, c *config.Config) { p.SetValue(configKey{}, c) }

// ConfigOf is the configuration of a proc; nil, which is all defaults, where none was set.
func ConfigOf(p *actor.Proc) *config.Config {
	c, _ := p.Value(configKey{}).(*config.Config)
	return c
}

// Mailbox is the mailbox of agents and controllers: what is configured is for the actors of users.
const Mailbox = 1024

// Configure takes the limits of actors, and of what is under way between procs, from a configuration.
func Configure(o *actor.Options, c *config.Config) {
	o.Deadline, o.Mailbox = config.DeliveryDeadline.Get(c), config.ActorMailbox.Get(c)
	o.Cleanup = config.ActorCleanup.Get(c)
	o.Relays.MaxUpdates = config.RelayUpdates.Get(c)
	o.Relays.Max = config.RelayAge.Get(c)
	o.Links.Silence = config.DeliverySilence.Get(c)
	o.Links.Nobody = config.DeliveryNobody.Get(c)
	o.Links.Away = config.DeliveryAway.Get(c)
	o.Links.MaxMessage = int(config.DeliveryMessage.Get(c))
	o.Links.Outbox = int(config.DeliveryOutbox.Get(c))
	o.Links.OutboxAll = int(config.DeliveryOutboxAll.Get(c))
	o.Links.Window = int(config.DeliveryWindow.Get(c))
	o.Links.WindowAll = int(config.DeliveryWindowAll.Get(c))
}

// Reach fills in what options leave open of how a process reaches the bus.
func Reach(o bus.Options, c *config.Config) bus.Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, config.BusConnect.Get(c))
	o.PingInterval = cmp.Or(o.PingInterval, config.BusPing.Get(c))
	o.ReconnectMax = cmp.Or(o.ReconnectMax, config.BusReconnect.Get(c))
	return o
}
