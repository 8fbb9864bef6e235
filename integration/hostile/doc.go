// Package hostile has a proc that attacks the system which runs it. It takes the credentials of its
// own process, and tries to speak in the name of others, to hear what is theirs, and to give orders.
// It does so on hostd's own server, on one with the keys of castnet auth, on one that asks an auth
// callout, and on one with fixed users.
//
//	go test ./...
//
// The tables in testdata say what the server lets such a client send and hear. A forged message
// that passes the server must change nothing: no proc is marked down, no process ends, and a mesh of
// another program goes on.
package hostile
