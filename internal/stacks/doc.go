// Package stacks presents the profiles of many processes, for castnet stack and castnet profile.
//
// [Group] makes equal stacks of goroutines one, with the ranks that have them. [Merge] adds up
// profiles. Their input is the answer of each rank to agent.GetProfile, in the format of pprof.
// Bytes that are no profile are an error with the rank. The functions are pure and may be called
// concurrently.
package stacks
