package host

import "github.com/castnet-io/castnet/actor"

// MaxLogRequests is the bound on waiting requests for logs.
const MaxLogRequests = maxLogRequests

// Observe calls f with each event of the host.
func (h *Host) Observe(f func(actor.Event)) (cancel func()) { return h.proc.Observe(f) }

// Forsake ends the launcher of a host as the host's death would: kept procs live on.
func (h *Host) Forsake() error { return h.runner.(*execRunner).launcher.Detach() }
