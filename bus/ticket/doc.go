// Package ticket makes and verifies the credentials of single processes. A server of package
// bus/embed takes them beside its token.
//
//	key := ticket.NewKey(token)
//	t := ticket.New(space, sender)
//	b, err := bus.Open(ctx, bus.Options{URL: url, Token: key.Sign(t), InboxPrefix: inbox})
//
// The key is derived from the server's token. The token's holder is the operator of the server, and
// can make tickets for all its processes. A ticket does not reveal the key.
//
// # Contract
//
//   - TICKET-1 (authenticity): Verify accepts exactly the texts that Sign returns with the same
//     key. The tag is HMAC-SHA256 over the whole text before it, and is compared in constant time.
//   - TICKET-2 (bounds): Verify reads at most [MaxText] bytes, checks the tag before any other
//     part, and never panics.
//
// # Details
//
// A ticket has no expiry, and no clock is read. It ends with its process: see
// embed.Server.EndTicket. Two tickets of one sender have different serials.
//
// A short token can be guessed from a ticket. hostd generates one of 130 bits.
package ticket
