// Package lines is how a benchmark speaks with a program that it measures: a line on the program's
// stdin asks, and a line on its stdout answers, until stdin ends.
//
//	local-tell-1to1-0B 1000000      the name of what to do, and how much of it
//	values 55.5                     what came out, one number or several
//	error "not done within 30s"     or why nothing did
//
// # Contract
//
//   - One line answers each, in order; an error of many lines is one line.
//   - The end of stdin ends the context of the answer that is being found.
package lines
