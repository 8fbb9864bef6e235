// Package app is one run of the castnet command line: its connection to the bus, the limits it
// pushes, and its output.
//
// An App is made by main and passed to every command. WithNet and WithNetTimeout connect, run the
// command, and disconnect. They map every error of an interrupt to exit code 130, and a broken bus
// to exit code 6. A completion connects within one second and prints nothing without a bus.
package app
