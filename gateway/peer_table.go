package gateway

import (
	"slices"
	"time"
)

const (
	heartbeatInterval = time.Second            // between two heartbeats of a gateway
	peerTTL           = 4 * time.Second        // after which a silent peer is forgotten
	probeInterval     = 250 * time.Millisecond // between two probes by a keeper of claims
	probeTimeout      = 3 * time.Second        // of silence after which a gateway counts as dead
	fullViewAfter     = 3 * heartbeatInterval  // of listening after which all others are known
	stallAfter        = time.Second            // without a tick after which this process was itself paused
	absentGrace       = time.Second            // of silence towards all; it may be reconnecting
	takeoverStagger   = time.Second            // after which the next gateway answers for a dead one
	claimGrace        = 5 * time.Second        // for which a claim is kept after its deadline
	maxClaim          = 24 * time.Hour         // maximum of gateway.max-timeout
	claimReplicas     = 3                      // gateways that keep the claims of one
	maxPeers          = 4096                   // that a gateway knows
	maxClaims         = 16 * maxCasts          // that a gateway keeps
)

// claim is a gateway's announcement, before it casts, that it will answer a request.
type claim struct {
	ID       uint64        `json:"id"`
	Reply    string        `json:"reply"`
	From     string        `json:"from"`
	Format   string        `json:"format"`           // a content type
	Stream   bool          `json:"stream,omitempty"` // an empty message ends the answer
	Timeout  time.Duration `json:"for"`              // until its deadline, in nanoseconds
	deadline time.Time
}

// claimKey names a claim among those of all gateways.
type claimKey struct {
	gateway string
	id      uint64
}

// peer is another gateway.
type peer struct {
	lastHeartbeat time.Time // last heard of
	lastAlive     time.Time // last known to live, since claims of it are held; zero: none are
	absentSince   time.Time // since when nobody listens where it should; zero: somebody does
	probing       bool      // an answer is awaited
}

// failureRecord is a dead gateway with its claims.
type failureRecord struct {
	gateway string
	claims  []claim
	due     time.Time // when this gateway is to answer for it
}

// peerTable is a gateway's view of the others and their claims. It is pure: messages and the time
// go in; gateways to probe, and claims to answer, come out.
type peerTable struct {
	self        string
	peers       map[string]*peer
	claims      map[claimKey]claim
	failures    []failureRecord
	stableSince time.Time // since when this gateway's own connection is as it is, and it runs
	lastTick    time.Time // when it last looked
}

func newPeerTable(self string) *peerTable {
	return &peerTable{self: self, peers: map[string]*peer{}, claims: map[claimKey]claim{}}
}

// noteHeartbeat records that a gateway is present.
func (b *peerTable) noteHeartbeat(of string, now time.Time) *peer {
	p := b.peers[of]
	if p == nil {
		p = new(peer)
		if len(b.peers) < maxPeers {
			b.peers[of] = p
		}
	}
	p.lastHeartbeat = now
	return p
}

// removePeer records that a gateway leaves: it has answered everything.
func (b *peerTable) removePeer(of string) {
	delete(b.peers, of)
	for key := range b.claims {
		if key.gateway == of {
			delete(b.claims, key)
		}
	}
}

// addClaim keeps a claim if this gateway is one of its keepers.
func (b *peerTable) addClaim(of string, c claim, now time.Time) {
	p := b.noteHeartbeat(of, now)
	if b.peers[of] == nil || b.position(of) >= claimReplicas || len(b.claims) >= maxClaims {
		return
	}
	if p.lastAlive.IsZero() {
		p.lastAlive = now
	}
	c.deadline = now.Add(c.Timeout)
	b.claims[claimKey{of, c.ID}] = c
}

// removeClaim forgets a claim: its request is answered.
func (b *peerTable) removeClaim(of string, id uint64) {
	delete(b.claims, claimKey{of, id})
	for i, o := range b.failures {
		if o.gateway == of {
			b.failures[i].claims = slices.DeleteFunc(o.claims, func(c claim) bool { return c.ID == id })
		}
	}
}

// position is this gateway's place among the live ones except of, the lowest ID first.
func (b *peerTable) position(of string) (n int) {
	for id := range b.peers {
		if id != of && id < b.self {
			n++
		}
	}
	return n
}

// isAlone reports whether no other gateway would hear a claim. A gateway that has not listened for
// long cannot know.
func (b *peerTable) isAlone(now time.Time) bool {
	return len(b.peers) == 0 && now.Sub(b.stableSince) > fullViewAfter
}

// holdsClaims reports whether this gateway may be one of the keepers of another's claims.
func (b *peerTable) holdsClaims() bool { return b.position("") <= claimReplicas }

// dropClaims forgets all claims, because their releases are no longer heard.
func (b *peerTable) dropClaims() { clear(b.claims) }

// resetView records that this gateway's own connection was lost or is back.
func (b *peerTable) resetView(now time.Time) {
	b.stableSince = now
	for _, p := range b.peers {
		p.absentSince = time.Time{}
		if !p.lastAlive.IsZero() {
			p.lastAlive = now
		}
	}
}

// probeResult is the result of a gateway's probe.
type probeResult int

const (
	probeAlive       probeResult = iota
	probeNoResponder             // nobody listens there
	probeNoAnswer                // it said nothing
	probeNotSent                 // it could not be asked
)

// noteProbeResult takes the outcome of a question.
func (b *peerTable) noteProbeResult(of string, e probeResult, now time.Time) {
	p := b.peers[of]
	if p == nil {
		return
	}
	p.probing = false
	switch e {
	case probeAlive, probeNotSent: // a failed probe proves nothing
		p.lastAlive = now
		p.absentSince = time.Time{}
	case probeNoResponder:
		if p.absentSince.IsZero() {
			p.absentSince = now
		}
	}
}

// tick returns the gateways to probe now, and the claims of dead ones to answer.
func (b *peerTable) tick(now time.Time) (ask []string, orphans []failureRecord) {
	if !b.lastTick.IsZero() && now.Sub(b.lastTick) > stallAfter {
		b.resetView(now)
	}
	b.lastTick = now
	held := map[string]bool{}
	for key, c := range b.claims {
		if now.After(c.deadline.Add(claimGrace)) {
			delete(b.claims, key)
			continue
		}
		held[key.gateway] = true
	}
	for of, p := range b.peers {
		switch {
		case held[of] && b.isDead(p, now):
			b.declareDead(of, now)
		case held[of]:
			if !p.probing {
				p.probing = true
				ask = append(ask, of)
			}
		default:
			p.lastAlive = time.Time{}
			p.absentSince = time.Time{}
			if now.Sub(p.lastHeartbeat) > peerTTL {
				delete(b.peers, of)
			}
		}
	}
	b.failures = slices.DeleteFunc(b.failures, func(o failureRecord) bool {
		due := !now.Before(o.due)
		if due && len(o.claims) > 0 {
			orphans = append(orphans, o)
		}
		return due
	})
	slices.Sort(ask)
	return ask, orphans
}

func (b *peerTable) isDead(p *peer, now time.Time) bool {
	if now.Sub(b.stableSince) < probeTimeout { // silence proves nothing to a gateway that was absent itself
		return false
	}
	return !p.absentSince.IsZero() && now.Sub(p.absentSince) >= absentGrace || now.Sub(p.lastAlive) >= probeTimeout
}

// declareDead marks a gateway as dead. The live ones answer for it in turn, until one has.
func (b *peerTable) declareDead(of string, now time.Time) {
	o := failureRecord{gateway: of, due: now.Add(time.Duration(b.position(of)) * takeoverStagger)}
	for key, c := range b.claims {
		if key.gateway == of {
			o.claims = append(o.claims, c)
		}
	}
	slices.SortFunc(o.claims, func(x, y claim) int { return int(int64(x.ID) - int64(y.ID)) })
	b.removePeer(of)
	b.failures = append(b.failures, o)
}
