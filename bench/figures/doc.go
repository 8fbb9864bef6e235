// Command figures fills docs/performance.md from the notes of a run of the benchmarks: the table
// between its two marks, and a plot of each family beside it.
//
//	make bench 2> notes.txt
//	go run -C bench ./figures -notes ../notes.txt -page ../docs/performance.md
//
// A family without a measured row keeps its plot.
package main
