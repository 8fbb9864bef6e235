// Package output prints the results of commands: tables for people, JSON for scripts.
//
// A Printer writes results to stdout and everything else to stderr. Colours, rules and progress
// bars appear on terminals only; a progress bar is cleared at the end. Records prints a list in the
// format of --output: a table, one JSON document, or one document a line.
package output
