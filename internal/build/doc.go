// Package build identifies programs. Two processes with the same ID run the same code, so a caller
// can check that its procs run its own build. Clients need this package, and import no launcher.
//
// ID is the identity of this program, and Of that of a file. Both only read files.
//
// Call them on any goroutine. Their errors name an unreadable file.
package build
