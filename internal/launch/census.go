package launch

// A Leftover is the tree of a child whose launcher died.
type Leftover struct {
	Name      string // of the child
	Processes int    // that were in it, and were killed
}
