// Command prose measures how plain the English of the repository is.
//
//	go run ./scripts/prose            # figures of each markdown file and each Go package, worst first
//	go run ./scripts/prose -list docs # sentences over 30 words, and those with a forbidden beginning
//
// It reads markdown without code, tables and headings, and the line comments of Go files, those of
// tests apart. It counts the words of a sentence, the sentences over 30 words, and the relative
// words in a hundred, such as which and that. No sentence begins with Who, Whoever, Whose, What or
// Nobody, except a question.
//
// The test of this package holds the repository to its limits.
package main
