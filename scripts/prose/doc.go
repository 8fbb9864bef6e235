// Command prose measures how plain the English of the repository is.
//
//	go run ./scripts/prose            # figures of each markdown file and each Go package, worst first
//	go run ./scripts/prose -list docs # sentences over 30 words, and those with a forbidden beginning
//
// It reads markdown without code, tables and headings, and the line comments of Go files that are
// no tests. It counts the words of a sentence, the sentences over 30 words, and the relative words
// (which, that, who, what …) in a hundred. A sentence begins with none of the words Who, Whoever,
// Whose, What and Nobody.
//
// The test of this package holds the repository to its limits.
package main
