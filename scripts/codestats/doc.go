// Command codestats prints how large the code is, and how it is written.
//
//	go run ./scripts/codestats
//
// A row per package gives its files, lines of code (without comments and empty lines), comments in
// a hundred lines, and the lengths of its functions: median, 90th percentile and longest. Then come
// the types with more than 30 methods, and the golf in 1,000 lines of code:
//
//   - an if statement whose initialiser assigns to a variable that is declared elsewhere;
//   - one whose initialiser is a call or an increment;
//   - a switch without a tag that has fewer than three cases;
//   - an assignment of three values or more that no single call returns.
//
// The last figure is the number of lines over 110 columns, or 100 in comments. A tab is one column.
// A test holds the limits of the product.
package main
