package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// listenerTimeout bounds the server's report of a missing listener.
const listenerTimeout = time.Second

// listeners finds subscribers and streams on subjects that belong to single processes. It sends to
// a process that does not exist, so castnet's own subscribers do not count.
func (d *doctor) listeners(ctx context.Context) Finding {
	id, err := subjects.NewMeshID("doctor")
	if err != nil {
		return Finding{Result: ResultFail, Found: err.Error()}
	}
	proc := subjects.ProcID{Mesh: id}
	self := proc.Process()
	from := d.sender()
	kinds := map[string]string{
		"p": d.space.Port(proc.Actor("doctor").Port("probe"), from), "f": d.space.Frame(self, from),
		"c": d.space.Control(self, from), "hr": d.space.HostRead(id.String(), "probe", from),
	}
	var mu sync.Mutex
	heard, streams := map[string]bool{}, map[string]bool{}
	var all sync.WaitGroup
	for kind, subject := range kinds {
		all.Go(func() {
			stream, listens := d.probeListener(ctx, subject)
			mu.Lock()
			defer mu.Unlock()
			if stream != "" {
				streams[stream] = true
			} else if listens {
				heard[d.space.String()+"."+kind+".>"] = true
			}
		})
	}
	all.Wait()
	var found, todo []string
	if names := slices.Sorted(maps.Keys(streams)); len(names) > 0 {
		found = append(found, fmt.Sprintf("the stream %s records messages between processes, and acknowledges "+
			"requests of plain "+
			"NATS clients before castnet answers them", strings.Join(names, ", ")))
		todo = append(todo, "record "+d.space.String()+".ev.> and .log.> only")
	}
	if names := slices.Sorted(maps.Keys(heard)); len(names) > 0 {
		found = append(found, "another client subscribes to "+strings.Join(names, ", "))
		todo = append(todo, "end that subscription (nats sub, a mirror account), or narrow it")
	}
	if len(found) == 0 {
		return Finding{Result: ResultOK, Found: "no client receives messages for other processes"}
	}
	const follows = ": the server cannot say that a process is gone, so its end is known later"
	return Finding{
		Result: ResultWarn, Found: strings.Join(found, "; ") + follows, Suggestion: strings.Join(todo, "; "),
	}
}

// streamAck is the acknowledgement of a stream that stored a message.
type streamAck struct {
	Stream string `json:"stream"`
}

// probeListener sends a request on an unused subject. An acknowledgement shows a stream; any
// outcome other than "no responders" shows a subscriber.
func (d *doctor) probeListener(ctx context.Context, subject string) (stream string, listens bool) {
	ctx, cancel := context.WithTimeout(ctx, listenerTimeout)
	defer cancel()
	m, err := d.bus.Control().Request(ctx, bus.Msg{Subject: subject})
	var ack streamAck
	if err == nil && json.Unmarshal(m.Data, &ack) == nil {
		return ack.Stream, true
	}
	return "", err == nil || errors.Is(err, context.DeadlineExceeded)
}
