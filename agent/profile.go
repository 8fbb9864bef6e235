package agent

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// GetProfile returns a profile of a proc's process in the format of pprof. Only proc agents serve
// it. Procs that share a process with another one before them return nothing.
var GetProfile = actor.NewEndpoint[Agent, ProfileRequest, []byte]("profile")

// ProfileKind says what a profile shows.
type ProfileKind string

// The kinds.
const (
	ProfileGoroutines ProfileKind = "goroutine" // the stacks of all goroutines
	ProfileHeap       ProfileKind = "heap"      // allocated memory by stack
	ProfileCPU        ProfileKind = "cpu"       // processor time by stack, during Duration
)

// MaxProfileDuration bounds ProfileRequest.Duration.
const MaxProfileDuration = 5 * time.Minute

// ProfileRequest asks for a profile.
type ProfileRequest struct {
	Kind     ProfileKind   `cbor:"1,keyasint" json:"kind"`
	Duration time.Duration `cbor:"2,keyasint,omitempty" json:"duration,omitempty"` // of ProfileCPU
}

// Check refuses an invalid request.
func (p ProfileRequest) Check() error {
	switch p.Kind {
	case ProfileGoroutines, ProfileHeap:
		if p.Duration != 0 {
			return fmt.Errorf("profile %s: want no duration", p.Kind)
		}
		return nil
	case ProfileCPU:
		if p.Duration <= 0 || p.Duration > MaxProfileDuration {
			return fmt.Errorf("profile cpu: duration of %s: want more than 0 and at most %s", p.Duration,
				MaxProfileDuration)
		}
		return nil
	}
	return fmt.Errorf("profile %q: want %s, %s or %s", p.Kind, ProfileGoroutines, ProfileHeap, ProfileCPU)
}
