// Package signin decides the name and the credential with which a process connects to the bus.
//
//	principal := signin.Speaker(options, wanted)
//	user := subjects.User{Principal: principal, Process: process}
//	options, err := signin.As(options, space, user)
//	b, err := bus.Open(ctx, options)
//
// Package bus knows no names: it presents the credential that it gets.
//
// # Contract
//
//   - SIGN-1 (names): With a key, or a token that has one for each name, a process connects as one
//     user, with its own inbox. A key for another user or Space is an error; a refused one says what
//     to do.
//
// All functions are pure.
package signin
