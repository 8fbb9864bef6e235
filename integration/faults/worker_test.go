package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/integration/faults/history"
	"github.com/castnet-io/castnet/subjects"
)

// workerConfig configures a worker.
type workerConfig struct {
	ID      subjects.ProcID
	URL     string
	History string          // without the suffix
	Place   *cast.Placement `json:",omitempty"` // of the mesh that its ranks are of
}

// workerRole is a proc with sending actors and recording actors.
type workerRole struct {
	proc    *actor.Proc
	bus     *bus.Bus
	history *history.Log
	senders []actor.Ref[*sender]
	next    int // the recorder to be named next
	routers []*cast.Router

	mu     sync.Mutex     // guards the field below
	states map[string]int // of the connections
}

func newWorkerRole(config []byte) (role, report, error) {
	var c workerConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, report{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w := &workerRole{states: map[string]int{}}
	var err error
	if w.history, err = history.Create(c.History); err != nil {
		return nil, report{}, err
	}
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	if w.bus, err = bus.Open(ctx, bus.Options{URL: c.URL, Name: c.ID.String(), OnState: w.countStates,
		Log: log}); err != nil {
		return nil, report{}, err
	}
	registry, err := actor.NewRegistry(w.recorderDef(), w.senderDef(), w.ringDef(), w.memberDef())
	if err != nil {
		return nil, report{}, err
	}
	if w.proc, err = actor.NewProc(ctx,
		actor.Options{ID: c.ID, Bus: w.bus, Registry: registry, Log: log}); err != nil {
		return nil, report{}, err
	}
	if c.Place != nil {
		return w, report{}, w.enter(ctx, *c.Place, registry, log)
	}
	return w, report{}, w.route(w.proc, nil)
}

// countStates counts the states of the connections.
func (w *workerRole) countStates(s bus.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states[string(s.Kind)]++
}

func (w *workerRole) obey(o order) (report, error) {
	do := map[string]func(context.Context, order) (report, error){
		"spawn": w.spawn, "load": w.load, "settle": w.settle, "call": w.call, "look": w.look, "ring": w.ring,
		"listen": w.listen,
	}[o.Do]
	if do == nil {
		return report{}, fmt.Errorf("%q is no order for a worker", o.Do)
	}
	within := o.Within
	if within == 0 {
		within = patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return do(ctx, o)
}

// spawn makes recorders. Their names depend only on the number of earlier ones, so a later
// incarnation has the same names.
func (w *workerRole) spawn(ctx context.Context, o order) (report, error) {
	var r report
	for range o.Recorders.N {
		id, err := w.proc.Spawn(ctx, actor.SpawnSpec{
			Type: recorderType.Name(), Name: "recorder-" + strconv.Itoa(w.next), Params: o.Recorders.Slow,
			Mailbox: o.Recorders.Mailbox,
		})
		if err != nil {
			return r, err
		}
		w.next++
		r.Actors = append(r.Actors, id)
	}
	return r, nil
}

// load makes senders and starts their loads.
func (w *workerRole) load(ctx context.Context, o order) (report, error) {
	for _, to := range o.Load.To { // as a mesh does for those who use it
		if err := w.proc.Members().FollowMesh(to.Proc.Mesh, int(to.Proc.Rank)+1); err != nil {
			return report{}, err
		}
	}
	for i := range o.Load.Senders {
		one := o.Load
		one.Seed += uint64(i)
		ref, err := actor.Spawn(ctx, w.proc, senderType, "sender", one)
		if err != nil {
			return report{}, err
		}
		w.senders = append(w.senders, ref)
		if _, err := begin.Call(ctx, ref, actor.None{}); err != nil {
			return report{}, err
		}
	}
	return report{}, nil
}

// settle waits until each message is sent and has a fate, and records that.
func (w *workerRole) settle(ctx context.Context, _ order) (report, error) {
	for _, ref := range w.senders {
		if _, err := sent.Call(ctx, ref, actor.None{}); err != nil {
			return report{}, fmt.Errorf("wait for the last message: %w", err)
		}
	}
	if err := w.proc.Flush(ctx); err != nil {
		return report{}, fmt.Errorf("flush: %w", err)
	}
	for _, ref := range w.senders { // what came back is before the mail (ACT-1)
		if _, err := seal.Call(ctx, ref, actor.None{}); err != nil {
			return report{}, fmt.Errorf("seal: %w", err)
		}
	}
	return report{}, nil
}

// call calls one actor, as the client of the proc.
func (w *workerRole) call(ctx context.Context, o order) (report, error) {
	began := time.Now()
	e := actor.NewEndpoint[*recorder, []byte, int](o.Endpoint)
	_, err := e.Call(ctx, actor.RefOf[*recorder](o.To).Via(w.proc), make([]byte, o.Size))
	r := report{Outcome: outcome{Took: time.Since(began)}}
	if e, ok := errors.AsType[*actor.Error](err); ok {
		r.Outcome.Code, r.Outcome.Undeliverable, r.Outcome.Text = e.Code, e.Undeliverable(), e.Error()
		return r, nil
	}
	return r, err
}

func (w *workerRole) look(ctx context.Context, o order) (report, error) {
	s := state{Connections: map[string]int{}, Info: w.proc.Info()}
	w.mu.Lock()
	for k, n := range w.states {
		s.Connections[k] = n
	}
	w.mu.Unlock()
	for _, id := range o.Procs {
		_, dead := w.proc.Members().Down(id)
		s.Dead = append(s.Dead, dead)
	}
	for _, ref := range w.senders {
		p, err := progress.Call(ctx, ref, actor.None{})
		if err != nil {
			return report{}, err
		}
		s.Sent += p.Sent
		s.Sending = s.Sending || p.Sending
		s.Casts = append(s.Casts, p.Casts...)
	}
	var err error
	s.RSS, s.Peak, err = memory()
	return report{State: s}, err
}

// memory is the resident set of this process: now, and at most so far.
func memory() (now, peak int, err error) { return memoryOf(os.Getpid()) }

// memoryOf is the resident set of a process.
func memoryOf(pid int) (now, peak int, err error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "kB" {
			continue
		}
		kb, err := strconv.Atoi(f[1])
		if err != nil {
			return 0, 0, err
		}
		switch f[0] {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			peak = kb << 10
		}
	}
	return now, peak, nil
}

func (w *workerRole) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := w.proc.Close(ctx)
	for _, r := range w.routers {
		r.Close()
	}
	return errors.Join(err, w.bus.Close(ctx), w.history.Close())
}
