// Package status is the live line of the examples: on a terminal it is redrawn in place, ten times a
// second; elsewhere it is a plain line each second, so that a log stays readable.
//
//	line := status.Start(os.Stdout, func() string { return … })
//	defer line.Stop()
//	line.Print("an event, above the line")
//
// The goroutine that draws ends with Stop, which leaves no trace of the line on a terminal.
package status
