// Package text formats names, numbers and durations for people.
//
// Its functions are pure and shared by the client and by mesh/inspect: ages and remaining times,
// lists with a bound, plurals, labels out of IDs, and words quoted for a shell. A text for people
// is one line; Shorten cuts it by characters, never within one.
package text
