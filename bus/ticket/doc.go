// Package ticket makes and verifies the credentials that a server of package bus/embed takes beside
// its token: keys of principals, and tickets of single processes.
//
//	master := ticket.NewMaster(token)                  // who has the token
//	key := master.Issue(space, principal, expires)     // for a person or a host
//	text, serial := key.Sign(user)                     // for one process
//	credential, err := master.Verify(text, time.Now()) // the server
//
// The secret of a key is derived from the server's token and the key's own text. The tag of a
// ticket is derived from its key. So a key needs no request, and a server no table of them. The
// holder of the token is the operator of the server, and can make every key. Neither reveals the
// token.
//
// # Contract
//
//   - TICKET-1 (authenticity): Verify accepts exactly the texts of Key.Text and Key.Sign under the
//     same token. Each tag is HMAC-SHA256 over the text before it, compared in constant time.
//   - TICKET-2 (bounds): Verify reads at most [MaxText] bytes, checks the tag before it believes
//     any other part, and never panics.
//   - TICKET-3 (names): A key signs for its own principal. That of a host also signs for its procs
//     and its gateway, and that of a system controller for its whole host.
//
// # Details
//
// A ticket ends with its process, and with its key: see embed.Server.EndTicket. Keys may expire by
// the clock of the server. Two tickets of one process have different serials.
//
// A short token can be guessed from a key. NewToken makes one of 130 bits.
package ticket
