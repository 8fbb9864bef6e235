package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// gatewayProbes is the number of requests to the gateways. The server gives each to a random
	// member of their queue group.
	gatewayProbes = 128
	// probeCollect is no way to collect answers: a gateway refuses the request at once.
	probeCollect = "doctor-probe"
)

// gateways finds a foreign member of the gateways' queue group, which takes requests of plain
// clients.
func (d *doctor) gateways(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, listenerTimeout)
	defer cancel()
	request := bus.Msg{
		Subject: strings.Join([]string{d.space.String(), subjects.KindGateway.String(), "doctor.doctor.probe",
			d.sender().String()}, "."),
		Header: bus.Header{"Castnet-Collect": {probeCollect}},
	}
	codes := make([]string, gatewayProbes)
	errs := make([]error, gatewayProbes)
	fanout.Each(gatewayProbes, errs, func(i int, _ error) {
		var m bus.Msg
		m, errs[i] = d.bus.Control().Request(ctx, request)
		codes[i] = m.Header.Get(actor.HeaderErrorCode)
	})
	lost, foreign := 0, 0
	for i, err := range errs {
		switch {
		case errors.Is(err, bus.ErrNoResponders):
			return Finding{Result: ResultOK, Found: "none: plain clients cannot cast"}
		case err != nil:
			lost++
		case codes[i] != "400":
			foreign++
		}
	}
	if lost+foreign == 0 {
		return Finding{Result: ResultOK, Found: fmt.Sprintf("they answered each of %d requests", gatewayProbes)}
	}
	if lost == gatewayProbes {
		return Finding{
			Result: ResultWarn, Found: "no request was answered: this user may not cast, or a gateway hangs",
			Suggestion: "allow it to publish to " + d.space.Gateways(),
		}
	}
	return Finding{
		Result: ResultWarn,
		Found: fmt.Sprintf("of %d requests %d had no answer, and %d the answer of another client: "+
			"a gateway hangs, or a client is a member of their queue group and takes casts",
			gatewayProbes, lost, foreign),
		Suggestion: "restart silent hosts, see hosts; let only hosts subscribe to " + d.space.Gateways(),
	}
}
