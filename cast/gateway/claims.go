package gateway

import (
	"slices"
	"time"
)

const (
	beatEvery   = time.Second            // a gateway says that it is there
	forgetAfter = 4 * time.Second        // a peer that says nothing is none
	askEvery    = 250 * time.Millisecond // whoever holds claims of a gateway asks whether it lives
	askWithin   = 3 * time.Second        // who is silent for so long has died
	hearsAll    = 3 * beatEvery          // who has listened for so long has heard of all others
	asleepAfter = time.Second            // who did not look for so long was stopped himself, and knows nothing
	goneAfter   = time.Second            // so has one that nobody heard for so long: it may be connecting anew
	nextAfter   = time.Second            // when who was to answer for a dead one does not, the next one does
	keepAfter   = 5 * time.Second        // a claim is kept so long after its deadline
	maxClaim    = 24 * time.Hour         // is what gateway.deadline can be at most
	keepers     = 3                      // so many gateways keep the claims of one
	maxPeers    = 4096                   // that a gateway knows
	maxClaims   = 16 * maxCasts          // that a gateway keeps
)

// claim is a gateway's word, before it casts, that it will answer a request.
type claim struct {
	ID       uint64        `json:"id"`
	Reply    string        `json:"reply"`
	From     string        `json:"from"`
	Format   string        `json:"format"`           // a content type
	Stream   bool          `json:"stream,omitempty"` // an empty message ends the answer
	For      time.Duration `json:"for"`              // until its deadline, in nanoseconds
	deadline time.Time
}

// bookKey names a claim among those of all gateways.
type bookKey struct {
	of string
	id uint64
}

// peer is another gateway.
type peer struct {
	beat  time.Time // last heard of
	held  time.Time // last known to live, since claims of it are held; zero: none are
	gone  time.Time // since when nobody listens where it should; zero: somebody does
	asked bool      // an answer is awaited
}

// obituary is a gateway that has died, and what it had claimed.
type obituary struct {
	of     string
	claims []claim
	at     time.Time // when this gateway is to answer for it
}

// book is what a gateway knows of the others and of what they have claimed. It is pure: words and the time
// go in; who is to be asked, and what is to be answered for whom, come out.
type book struct {
	self   string
	peers  map[string]*peer
	claims map[bookKey]claim
	dead   []obituary
	calm   time.Time // since when this gateway's own connection is as it is, and it runs
	ticked time.Time // when it last looked
}

func newBook(self string) *book {
	return &book{self: self, peers: map[string]*peer{}, claims: map[bookKey]claim{}}
}

// hear takes the word that a gateway is there.
func (b *book) hear(of string, now time.Time) *peer {
	p := b.peers[of]
	if p == nil {
		if p = new(peer); len(b.peers) < maxPeers {
			b.peers[of] = p
		}
	}
	p.beat = now
	return p
}

// leave takes the word that a gateway goes: it has answered everything.
func (b *book) leave(of string) {
	delete(b.peers, of)
	for key := range b.claims {
		if key.of == of {
			delete(b.claims, key)
		}
	}
}

// claim keeps a claim if this gateway is one of its keepers.
func (b *book) claim(of string, c claim, now time.Time) {
	p := b.hear(of, now)
	if b.peers[of] == nil || b.place(of) >= keepers || len(b.claims) >= maxClaims {
		return
	}
	if p.held.IsZero() {
		p.held = now
	}
	c.deadline = now.Add(c.For)
	b.claims[bookKey{of, c.ID}] = c
}

// release forgets a claim: its request is answered.
func (b *book) release(of string, id uint64) {
	delete(b.claims, bookKey{of, id})
	for i, o := range b.dead {
		if o.of == of {
			b.dead[i].claims = slices.DeleteFunc(o.claims, func(c claim) bool { return c.ID == id })
		}
	}
}

// place is this gateway's among the living that are not of, the lowest ID first.
func (b *book) place(of string) (n int) {
	for id := range b.peers {
		if id != of && id < b.self {
			n++
		}
	}
	return n
}

// alone reports that nobody would hear a claim. Who has not listened for long does not know.
func (b *book) alone(now time.Time) bool {
	return len(b.peers) == 0 && now.Sub(b.calm) > hearsAll
}

// keeps reports whether this gateway may be one of those that keep the claims of some other.
func (b *book) keeps() bool { return b.place("") <= keepers }

// drop forgets all claims: what becomes of them is not heard any more.
func (b *book) drop() { clear(b.claims) }

// stir takes the word that this gateway's own connection was lost or is back.
func (b *book) stir(now time.Time) {
	b.calm = now
	for _, p := range b.peers {
		p.gone = time.Time{}
		if !p.held.IsZero() {
			p.held = now
		}
	}
}

// What a gateway that was asked whether it lives said.
type echo int

const (
	lives  echo = iota
	absent      // nobody listens there
	mute        // it said nothing
	unsaid      // it could not be asked
)

// answer takes the outcome of a question.
func (b *book) answer(of string, e echo, now time.Time) {
	p := b.peers[of]
	if p == nil {
		return
	}
	p.asked = false
	switch e {
	case lives, unsaid: // who cannot ask knows nothing
		p.held, p.gone = now, time.Time{}
	case absent:
		if p.gone.IsZero() {
			p.gone = now
		}
	}
}

// tick says who is to be asked now, and what is to be answered for the dead.
func (b *book) tick(now time.Time) (ask []string, orphans []obituary) {
	if !b.ticked.IsZero() && now.Sub(b.ticked) > asleepAfter {
		b.stir(now)
	}
	b.ticked = now
	held := map[string]bool{}
	for key, c := range b.claims {
		if now.After(c.deadline.Add(keepAfter)) {
			delete(b.claims, key)
			continue
		}
		held[key.of] = true
	}
	for of, p := range b.peers {
		switch {
		case held[of] && b.hasDied(p, now):
			b.bury(of, now)
		case held[of]:
			if !p.asked {
				p.asked = true
				ask = append(ask, of)
			}
		default:
			p.held, p.gone = time.Time{}, time.Time{}
			if now.Sub(p.beat) > forgetAfter {
				delete(b.peers, of)
			}
		}
	}
	b.dead = slices.DeleteFunc(b.dead, func(o obituary) bool {
		due := !now.Before(o.at)
		if due && len(o.claims) > 0 {
			orphans = append(orphans, o)
		}
		return due
	})
	slices.Sort(ask)
	return ask, orphans
}

func (b *book) hasDied(p *peer, now time.Time) bool {
	if now.Sub(b.calm) < askWithin { // silence says nothing to who was not there himself
		return false
	}
	return !p.gone.IsZero() && now.Sub(p.gone) >= goneAfter || now.Sub(p.held) >= askWithin
}

// bury takes a gateway for dead. The living answer for it one after the other, as long as nobody has.
func (b *book) bury(of string, now time.Time) {
	o := obituary{of: of, at: now.Add(time.Duration(b.place(of)) * nextAfter)}
	for key, c := range b.claims {
		if key.of == of {
			o.claims = append(o.claims, c)
		}
	}
	slices.SortFunc(o.claims, func(x, y claim) int { return int(int64(x.ID) - int64(y.ID)) })
	b.leave(of)
	b.dead = append(b.dead, o)
}
