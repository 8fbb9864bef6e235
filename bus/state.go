package bus

// Lane names one of the two connections of a Bus.
type Lane string

// The lanes. The name of a connection at the server ends in its lane.
const (
	LaneData    Lane = "data"
	LaneControl Lane = "control"
)

// StateKind says what happened to a connection.
type StateKind string

// The kinds of State.
const (
	Connected    StateKind = "connected"    // the first time, before Open returns or soon after
	Disconnected StateKind = "disconnected" // publishes fail until Reconnected
	Reconnected  StateKind = "reconnected"  // the server has all subscriptions; what was in flight may be lost
	Denied       StateKind = "denied"       // Err is a *PermissionError; the connection stays
	Closed       StateKind = "closed"       // for good
)

// State is one event in the life of a connection.
type State struct {
	Lane Lane
	Kind StateKind
	Err  error // why; nil for Connected, Reconnected and a Close asked for
}
