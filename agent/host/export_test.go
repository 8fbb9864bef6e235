package host

import "github.com/castnet-io/castnet/actor"

// Observe calls f with each event of the host, as it is told.
func (h *Host) Observe(f func(actor.Event)) (cancel func()) { return h.proc.Observe(f) }
