// Package flags has the flag types and the argument checks of the commands.
//
// A flag here parses its value at once and names the expected form in its error, so that a wrong
// command line is refused before anything is sent. Commands check their number of arguments with
// WantArgs, and groups of commands refuse unknown subcommands instead of printing their help.
package flags
