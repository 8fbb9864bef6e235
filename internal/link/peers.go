package link

import (
	"cmp"
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// Peer is what is known of the two links to and from one process.
type Peer struct {
	Process  subjects.ProcessID
	Sent     uint64 // the number of the last message to it; 0: none
	Received uint64 // the number of the last message from it that was delivered; 0: none
	Answers  bool   // it was heard from
	Broken   string // why one of the two carries nothing more; "": they do
}

// Peers lists the at most limit processes used last, as both ends of their links in this process see
// them, in the order of their IDs.
func Peers(s *Sender, r *Receiver, limit int) []Peer {
	known := map[subjects.ProcessID]*Peer{}
	about := func(id subjects.ProcessID) *Peer {
		p := known[id]
		if p == nil {
			p = &Peer{Process: id}
			known[id] = p
		}
		return p
	}
	s.mu.Lock()
	s.peers.newest(limit, func(id subjects.ProcessID, state *peer) {
		p := about(id)
		p.Sent, p.Answers = state.last, state.open
		if state.broken != nil {
			p.Broken = state.broken.Reason
		}
	})
	s.mu.Unlock()
	r.mu.Lock()
	r.links.newest(limit, func(id subjects.ProcessID, state *incoming) {
		p := about(id)
		p.Received = state.last
		p.Broken = cmp.Or(p.Broken, state.reason)
	})
	r.mu.Unlock()
	var all []Peer
	for _, p := range known {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Peer) int { return a.Process.Compare(b.Process) })
	return all
}
