// Package golden compares what the client prints with files, for the tests of its packages.
//
// Check renders a table or a text from fixed values, as a terminal of 80 and of 120 columns shows
// it, without colours. `go test -run Golden -update` writes the files of one package anew; read the
// difference as a user would before you commit it. Ages in the values lie in the middle of a unit,
// so that a slow test reads the same.
package golden
