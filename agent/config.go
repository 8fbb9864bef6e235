package agent

import (
	"cmp"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
)

// GetConfig returns the configuration of an agent's process: every key with its source. Hosts and
// procs serve it.
var GetConfig = actor.NewEndpoint[Agent, actor.None, []config.Entry]("config")

// configKey is the key of a proc's configuration among its values.
type configKey struct{}

// SetConfig sets the configuration of a proc. ConfigOf returns it.
func SetConfig(p *actor.Proc, c *config.Config) { p.Values().Set(configKey{}, c) }

// ConfigOf returns the configuration of a proc. Without one it returns nil, which means defaults.
func ConfigOf(p *actor.Proc) *config.Config {
	c, _ := p.Values().Get(configKey{}).(*config.Config)
	return c
}

// commandEnvKey is the key of the environment of a proc's command among its values.
type commandEnvKey struct{}

// SetCommandEnv sets the environment that the mesh of a proc gave its program. CommandEnvOf returns
// it.
func SetCommandEnv(p *actor.Proc, env []string) { p.Values().Set(commandEnvKey{}, env) }

// CommandEnvOf returns the environment that a proc's actors pass on to procs of the same program.
func CommandEnvOf(p *actor.Proc) []string {
	env, _ := p.Values().Get(commandEnvKey{}).([]string)
	return env
}

// MailboxSize is the mailbox of agents and controllers. The configured size applies to user actors.
const MailboxSize = 1024

// ConfigureProc copies the limits of actors and of links from a configuration.
func ConfigureProc(o *actor.Options, c *config.Config) {
	o.Deadline, o.Mailbox = config.DeliveryTimeout.Get(c), config.ActorMailboxSize.Get(c)
	o.Cleanup = config.ActorCleanupTimeout.Get(c)
	o.Relays.MaxUpdates = config.RelayMaxUpdates.Get(c)
	o.Relays.MaxDelay = config.RelayMaxDelay.Get(c)
	o.Links.SilenceTimeout = config.DeliveryAckTimeout.Get(c)
	o.Links.NoResponderGrace = config.DeliveryNoResponderTimeout.Get(c)
	o.Links.ReconnectGrace = config.DeliveryReconnectTimeout.Get(c)
	o.Links.MaxMessage = int(config.DeliveryMaxMessage.Get(c))
	o.Links.Outbox = int(config.DeliverySendBuffer.Get(c))
	o.Links.OutboxAll = int(config.DeliverySendBufferTotal.Get(c))
	o.Links.Window = int(config.DeliveryReceiveWindow.Get(c))
	o.Links.WindowAll = int(config.DeliveryReceiveWindowTotal.Get(c))
}

// WithBusDefaults fills empty bus options from a configuration.
func WithBusDefaults(o bus.Options, c *config.Config) bus.Options {
	if o.Server == nil {
		o.ConnectTimeout = cmp.Or(o.ConnectTimeout, config.BusConnectTimeout.Get(c))
	}
	o.PingInterval = cmp.Or(o.PingInterval, config.BusPingInterval.Get(c))
	o.ReconnectMax = cmp.Or(o.ReconnectMax, config.BusMaxReconnectWait.Get(c))
	return o
}
