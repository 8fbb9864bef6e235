package mesh

import "github.com/castnet-io/castnet/subjects"

// Follows reports whether the Net has listed the ranks of a controller's mesh.
func (n *Net) Follows(owner subjects.ActorID) bool {
	n.feeds.mu.Lock()
	defer n.feeds.mu.Unlock()
	for s, f := range n.feeds.all {
		if s.watched() == owner && f.known().listed {
			return true
		}
	}
	return false
}
