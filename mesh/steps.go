package mesh

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// step tells on `ev.` what this program does with hosts: most have no controller that could tell.
func (n *Net) step(name, hosts string, count int, now agent.Phase, why error) {
	e := actor.Event{Kind: actor.KindMesh, Step: name, Status: now.String(), Name: hosts, At: time.Now(), Reason: fmt.Sprintf("%d hosts", count)}
	if why != nil {
		e.Reason = why.Error()
	}
	n.proc.Emit(e)
}
