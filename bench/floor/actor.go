package floor

import (
	"sync"

	"github.com/castnet-io/castnet/bench/local"
)

// cell is an actor. It is also the local.Context of its own handler.
type cell struct {
	behavior local.Behavior

	mu      sync.Mutex
	queue   []envelope // arrives here
	spare   []envelope // the room of what was handled last, for the next swap
	running bool
	stopped bool
}

// envelope is a message, and where its answer goes.
type envelope struct {
	message any
	answer  chan<- any // nil: nobody waits
}

// push puts a message into the queue and starts the goroutine when there is none. A stopped actor
// takes nothing.
func (c *cell) push(e envelope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.queue = append(c.queue, e)
	if !c.running {
		c.running = true
		go c.run()
	}
}

// run handles whatever there is.
func (c *cell) run() {
	for {
		batch := c.swap()
		if batch == nil {
			return
		}
		for _, e := range batch {
			answer := c.behavior.Receive(c, e.message)
			if e.answer != nil {
				e.answer <- answer
			}
		}
		clear(batch) // what was handled is garbage
	}
}

// swap takes all that arrived and leaves the other slice in its place; nil when nothing did.
func (c *cell) swap() []envelope {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.running = false
		return nil
	}
	batch := c.queue
	c.queue, c.spare = c.spare[:0], batch
	return batch
}

// Tell sends a message to another actor.
func (c *cell) Tell(to local.Ref, m any) { to.(*cell).push(envelope{message: m}) }

// Stop lets the actor take nothing more.
func (c *cell) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}
