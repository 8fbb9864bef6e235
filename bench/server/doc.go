// Package server is the NATS server that one end of a measurement between two processes stands on:
// in a process of its own, or in this one.
//
//	s, err := server.Open(ctx, server.Options{URL: url, Token: token})   // elsewhere
//	s, err := server.Open(ctx, server.Options{Token: token})             // here, over a pipe in memory
//	defer s.Close()
//
// Both sides of a row, castnet and plain NATS, open it the same way, so that a difference between
// them is not the server's.
package server
