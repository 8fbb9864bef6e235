package mesh

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// emitHostStep publishes this program's actions on hosts on `ev.`, because most hosts have no
// controller.
func emitHostStep(p *actor.Proc, name, hosts string, count int, now agent.Phase, why error) {
	e := actor.Event{
		Kind: actor.KindMesh, Step: name, Status: now.String(), Name: hosts, At: time.Now(),
		Reason: fmt.Sprintf("%d hosts", count),
	}
	if why != nil {
		e.Reason = why.Error()
	}
	p.Emit(e)
}
