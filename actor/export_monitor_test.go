package actor

// Watched says how many wait for the end of an actor; its own watches of others are among them.
func (p *Proc) Watched(name string) int {
	in := p.find(name)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.extra == nil {
		return 0
	}
	return len(in.extra.observers)
}

// Owed is how many watches of other procs are not over, with what is on its way for the sake of
// links and watches.
func (p *Proc) Owed() int {
	p.remoteMonitors.mu.Lock()
	defer p.remoteMonitors.mu.Unlock()
	return len(p.remoteMonitors.all)
}

// Monitoring is a watch from the watcher's side: how it is told of the end, and how its owner ends
// it.
func Monitoring(down func(Down)) (end func(Down), quit func() bool) {
	m := &monitorState{down: down}
	return m.fire, m.stop
}
