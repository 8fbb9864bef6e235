// Package status draws the live line of the examples. On a terminal it redraws in place, ten times
// a second. Elsewhere it prints a plain line per second, so a log stays readable.
//
//	line := status.Start(os.Stdout, func() string { return … })
//	defer line.Stop()
//	line.Print("an event, above the line")
//
// Stop ends the drawing goroutine and clears the line on a terminal.
package status
