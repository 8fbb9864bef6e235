package main

import "time"

// pace says when the batch of an answer was sent: all answers of one come before the next batch is sent.
type pace struct {
	batches [][]int
	pause   time.Duration
	open    int // ranks of the first batch that have not answered
	begun   time.Time
}

func newPace(k casting) *pace {
	p := &pace{batches: k.batches, pause: k.throttle.Pause, begun: time.Now()}
	p.open = len(p.batches[0])
	return p
}

// answer is how long one took, in milliseconds.
func (p *pace) answer() float64 {
	ms := since(p.begun)
	if p.open--; p.open == 0 && len(p.batches) > 1 {
		p.batches = p.batches[1:]
		p.open, p.begun = len(p.batches[0]), time.Now().Add(p.pause)
	}
	return ms
}
