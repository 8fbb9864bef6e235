package link

import (
	"fmt"
	"sync"

	"github.com/castnet-io/castnet/subjects"
)

// BrokenError says that the receiver refuses a link.
type BrokenError struct {
	Peer   subjects.ProcessID
	Reason string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("link to %s is broken: %s", e.Peer, e.Reason)
}

// peer is what a sender knows about one link.
type peer struct {
	last   uint64       // the last number sent on it
	open   bool         // the peer was heard from, so it is there
	broken *BrokenError // why nothing is sent any more
}

// Sender numbers what one process sends.
type Sender struct {
	mu    sync.Mutex // held while publishing (LINK-1); guards the fields below
	n     uint64
	peers *recent[peer]
}

// NewSender returns a sender whose first number is 1.
func NewSender() *Sender { return &Sender{peers: newRecent[peer](maxPeers)} }

// Send numbers one message to a process and publishes it. open tells publish that the peer was
// heard from before; while it is not, a hint whether anybody listens is worth its price.
func (s *Sender) Send(to subjects.ProcessID, publish func(n, prev uint64, open bool) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers.use(to)
	if p.broken != nil {
		return p.broken // LINK-4
	}
	if err := publish(s.n+1, p.last, p.open); err != nil {
		return err // LINK-2
	}
	s.n++
	p.last = s.n
	return nil
}

// SendCast numbers one message to many processes and publishes it once. prevs are in the order of
// to, each of which is there once. A process whose link is broken is left out: its prev is Left, and
// its error is returned. When every link is broken nothing is published (LINK-4).
func (s *Sender) SendCast(to []subjects.ProcessID, publish func(n uint64, prevs []uint64) error) ([]*BrokenError, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prevs := make([]uint64, len(to))
	var broken []*BrokenError
	for i, id := range to {
		if p := s.peers.get(id); p == nil {
			continue // nothing was sent to it before: its link opens with this cast
		} else if p.broken != nil {
			prevs[i] = Left
			broken = append(broken, p.broken)
		} else {
			prevs[i] = p.last
		}
	}
	if len(broken) == len(to) {
		return broken, nil
	}
	if err := publish(s.n+1, prevs); err != nil {
		return broken, err
	}
	s.n++
	for i, id := range to {
		if prevs[i] != Left {
			s.peers.use(id).last = s.n
		}
	}
	return broken, nil
}

// Left marks a member of a cast that is not meant: its link is broken.
const Left = ^uint64(0)

// Heard records that a peer answered.
func (s *Sender) Heard(from subjects.ProcessID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.peers.get(from); p != nil {
		p.open = true
	}
}

// Break ends the link to a process and reports whether it was whole before.
func (s *Sender) Break(to subjects.ProcessID, reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers.use(to)
	if p.broken != nil {
		return false
	}
	p.broken = &BrokenError{Peer: to, Reason: reason}
	return true
}

// Forget drops the state of a peer that is known to be dead.
func (s *Sender) Forget(to subjects.ProcessID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers.drop(to)
}
