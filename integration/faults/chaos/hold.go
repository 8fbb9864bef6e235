package chaos

// Held is what the clients of a proxy sent since Hold, on the connections they had then.
type Held struct{ pairs []*pair }

// Hold keeps back what comes from the clients that are there now. The server's words still reach
// them; new connections are not concerned.
func (p *Proxy) Hold() *Held {
	h := &Held{p.all()}
	for _, q := range h.pairs {
		q.held.shut()
	}
	return h
}

// SendAway cuts the clients off with RST. Their connections to the server stay, and so does what
// was held back.
func (h *Held) SendAway() {
	for _, q := range h.pairs {
		reset(q.client)
	}
}

// Release gives the server what was held back. A connection whose client was sent away then ends.
func (h *Held) Release() {
	for _, q := range h.pairs {
		q.held.open()
	}
}
