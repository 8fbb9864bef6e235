package actor

import (
	"sync"

	"github.com/castnet-io/castnet/subjects"
)

// pendingRequests holds the messages from other procs that can be cancelled, by reply port.
type pendingRequests struct {
	mu  sync.Mutex
	all map[string]*Delivery

	earlyCancels map[string]subjects.ProcessID // given up before they were here, or after they were answered
}

// maxEarlyCancels bounds the early cancels; a full table is cleared.
const maxEarlyCancels = 4096

// add lets the sender of a message give it up, unless its port is in use.
func (a *pendingRequests) add(d *Delivery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]*Delivery{}
	}
	if a.all[d.Reply] != nil {
		return
	}
	a.all[d.Reply] = d
	d.pending = a
	if from, gone := a.earlyCancels[d.Reply]; gone && from == d.From.Proc.Process() {
		delete(a.earlyCancels, d.Reply)
		d.cancel()
	}
}

// remove forgets a message.
func (a *pendingRequests) remove(d *Delivery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[d.Reply] == d {
		delete(a.all, d.Reply)
	}
}

// cancel gives a message up: its contexts end, or it is not handled at all.
func (a *pendingRequests) cancel(from subjects.ProcessID, reply string) {
	a.mu.Lock()
	d := a.all[reply]
	if d == nil { // the control connection is faster
		if a.earlyCancels == nil || len(a.earlyCancels) >= maxEarlyCancels {
			a.earlyCancels = map[string]subjects.ProcessID{}
		}
		a.earlyCancels[reply] = from
	}
	a.mu.Unlock()
	if d != nil && d.From.Proc.Process() == from {
		d.cancel()
	}
}

// cancelFrom cancels all requests of dead procs.
func (a *pendingRequests) cancelFrom(gone func(subjects.ProcID) bool) {
	a.mu.Lock()
	var all []*Delivery
	for _, d := range a.all {
		if gone(d.From.Proc) {
			all = append(all, d)
		}
	}
	a.mu.Unlock()
	for _, d := range all { // before a handler ends, and the next message begins
		d.withdraw()
	}
	for _, d := range all {
		d.cancel()
	}
}
