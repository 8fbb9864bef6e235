package launch

// Leftover is the tree of a child whose launcher died.
type Leftover struct {
	Name      string // of the child
	Processes int    // killed in it
}
