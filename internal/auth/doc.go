// Package auth makes the credentials of principals for NATS servers: keys that sign only for one
// principal, user JWTs of short life, and the configuration of the server.
//
//	err := auth.Init(dir, space)
//	err = auth.Update(dir, change)
//	jwt, seed, err := hostKey.MintHost(time.Hour)
//
// An [Authority] is an operator with one account for castnet. It has a scoped signing key for each
// principal. The server grants a user what the template of its signing key permits:
// [subjects.Space.Grants] of the principal. The name in a user JWT grants nothing.
//
// A [HostKey] holds the two keys of one hostd: its own, and that of its procs. It can make users of
// these two principals only.
//
// # Contract
//
//   - AUTH-1 (one principal): A signing key makes users of one principal. Its template is literal
//     in the principal, and a label is checked before any key is made for it.
//   - AUTH-2 (end): A user JWT has an end. Removal of a host, and of a principal, takes its signing
//     key out of the account; servers then close the connections of all its users.
//   - AUTH-3 (files): The directory of an Authority is one file, for its owner only. It is replaced
//     at once by one writer. No error has a seed or a password.
//   - AUTH-4 (fixed users): FixedUsers prints hashes of random passwords only, and the permissions
//     of AUTH-1.
//
// # Details
//
// Procs of one host share one principal, so they are not protected from each other. The server's
// clock decides when a JWT ends, and the maker's clock what its end is.
package auth
