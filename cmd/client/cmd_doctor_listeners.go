package main

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

// listenerWithin is how long the server may take to say that nobody listens.
const listenerWithin = time.Second

// listeners looks for subscribers and streams that hear messages which are for one process each. It asks on subjects
// of a process that does not exist: nobody of castnet hears those.
func (d *doctor) listeners(ctx context.Context) finding {
	id, err := subjects.NewMeshID("doctor")
	if err != nil {
		return finding{Result: failResult, Found: err.Error()}
	}
	proc := subjects.ProcID{Mesh: id}
	self, from := proc.Process(), subjects.Anon
	kinds := map[string]string{
		"p": d.space.Port(proc.Actor("doctor").Port("probe"), from), "f": d.space.Frame(self, from),
		"c": d.space.Control(self, from), "h": d.space.Host(id.String(), "probe", from),
	}
	var mu sync.Mutex
	heard, streams := map[string]bool{}, map[string]bool{}
	var all sync.WaitGroup
	for kind, subject := range kinds {
		all.Go(func() {
			stream, listens := d.overheard(ctx, subject)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case stream != "":
				streams[stream] = true
			case listens:
				heard[d.space.String()+"."+kind+".>"] = true
			}
		})
	}
	all.Wait()
	var found, todo []string
	if names := slices.Sorted(maps.Keys(streams)); len(names) > 0 {
		found = append(found, fmt.Sprintf("the stream %s records messages between processes, and acknowledges requests of plain "+
			"NATS clients before castnet answers them", strings.Join(names, ", ")))
		todo = append(todo, "record "+d.space.String()+".ev.> and .log.> only")
	}
	if names := slices.Sorted(maps.Keys(heard)); len(names) > 0 {
		found = append(found, "somebody subscribes to "+strings.Join(names, ", "))
		todo = append(todo, "end that subscription (nats sub, a mirror account), or narrow it")
	}
	if len(found) == 0 {
		return finding{Result: wellResult, Found: "nobody hears messages that are for one process"}
	}
	const follows = ": the server cannot say that a process is gone, so its end is known later"
	return finding{Result: warnResult, Found: strings.Join(found, "; ") + follows, Todo: strings.Join(todo, "; ")}
}

// acknowledgement is what a stream says that has recorded a message.
type acknowledgement struct {
	Stream string `json:"stream"`
}

// overheard asks on a subject that nobody serves: a stream acknowledges it, and when the server does not say that
// nobody listens, somebody does.
func (d *doctor) overheard(ctx context.Context, subject string) (stream string, listens bool) {
	ctx, cancel := context.WithTimeout(ctx, listenerWithin)
	defer cancel()
	m, err := d.b.Control().Request(ctx, bus.Msg{Subject: subject})
	var ack acknowledgement
	if err == nil && json.Unmarshal(m.Data, &ack) == nil {
		return ack.Stream, true
	}
	return "", err == nil || errors.Is(err, context.DeadlineExceeded)
}
