// Command callout is an auth callout service for NATS: it decides who a client is, and grants what
// castnet's principals may do. It stands for the users of an organisation that has its own.
//
//	CALLOUT_SEED=SA… NATS_URL=… NATS_USER=auth NATS_PASSWORD=… go run ./examples/callout users.txt
//
// A line of users.txt is a principal and a password. A hostd is one user, with the label of the host
// (h-a or s-a), and its procs another one, p-a. castnet auth conf --users makes such passwords, and the
// file with both for hostd --auth-key. The server's configuration names the service:
//
//	accounts { AUTH: { users: [{ user: auth, password: $AUTH_PASSWORD }] }, CASTNET: { jetstream: enabled } }
//	authorization { auth_callout { issuer: A…, account: AUTH, auth_users: [auth] } }
//
// Every connect waits for the service, so an organisation runs two or more of them, which share the
// requests, and encrypts the requests by an xkey.
package main
