package actor

// Watched counts the watchers of an actor's end; its own watches of others are among them.
func (p *Proc) Watched(name string) int {
	in := p.find(name)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.extra == nil {
		return 0
	}
	return len(in.extra.observers)
}

// Owed counts the unfinished watches of other procs, and the pending messages of links and watches.
func (p *Proc) Owed() int {
	p.monitors.mu.Lock()
	defer p.monitors.mu.Unlock()
	return len(p.monitors.all)
}

// Monitoring is a watch from the watcher's side: the handler of the end, and the function that
// cancels it.
func Monitoring(down func(Down)) (end func(Down), quit func() bool) {
	m := &monitorState{down: down}
	return m.fire, m.stop
}
