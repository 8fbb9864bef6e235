// Package stacks groups the goroutines of many procs by their stacks, for castnet stack, and adds
// up their profiles. Its functions are pure.
package stacks
