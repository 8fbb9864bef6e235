// Command roles writes the table of docs/security.md that says which role may use which verb.
//
//	go run ./scripts/roles
//
// The table comes from agent.Permissions and system.Permissions, which agents keep. The test of
// this package compares the page with them.
package main
