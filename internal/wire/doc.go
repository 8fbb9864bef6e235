// Package wire is the form of castnet messages on the bus: packets, their envelopes, and the CBOR
// modes of bodies.
//
// A packet is one NATS message between two castnet processes: a head, and a rest by its kind. A
// Data packet holds envelopes; each is one message around an opaque body. The receiving pump reads
// heads and envelopes, the handling goroutine reads the body once:
//
//	packet    0x00  version  kind  flags  uvarint age(ms)  uvarint n  uvarint prev  [4 uvarint known]  rest…
//	envelope  kind|flags  [str actor  str port  str sender]  [uvarint ttl(ms)]  [str reply]
//	          [str ext]  str body
//
// Here str is a uvarint length and that many bytes. A flag announces each part in brackets. The ext
// of a Message is a valid Trace. A message on a port's subject without a leading 0x00 comes from a
// foreign NATS client. It is JSON or CBOR by its Content-Type header or its first byte (see
// Format).
//
// # Contract
//
//   - WIRE-1 (packets): Decoders of packets never panic, and allocate at most twice the packet's
//     size plus 4 KiB, for names. Results share the packet's memory, so the caller must not reuse
//     the buffer. A part never extends outside its whole.
//   - WIRE-2 (encoding): Marshal is deterministic (RFC 8949 §4.2.1). It refuses values that no
//     peer accepts (tags, big integers, functions). A panic of a type's marshaler is an error.
//     Times keep their nanoseconds.
//   - WIRE-3 (unknown fields): Unknown fields of a CBOR map are skipped unchecked; a message with
//     some is counted once, if the caller gives a counter. Elsewhere duplicate keys, indefinite
//     lengths, tags and invalid UTF-8 are errors.
//   - WIRE-4 (append-only): Kinds, codes and the CBOR keys of wire structs are append-only, and
//     their bytes stay.
//   - WIRE-6 (memory): Reading a body takes at most 64 times its size plus 1 MiB, for any claimed
//     lengths and any type. A larger one gets a *TooLargeError before anything is allocated. Types
//     with decoding methods of their own are not covered.
//   - WIRE-7 (own limits): castnet's own packets and bodies have at most 16 levels, 65,536
//     elements in an array and 4,096 pairs in a map. Longer lists and maps travel as blocks of
//     that size; other blocks are refused.
//   - WIRE-9 (nesting): Marshal, for CBOR and JSON, refuses values that contain themselves, are
//     over 1,000 pointers, interfaces and containers deep, or have over 2^26 items. CBOR with more
//     levels than its receiver reads is refused, too.
//
// # Details
//
// Invalid UTF-8 is refused by the receiver. Endless recursion of a marshaler ends the process. A
// user's body may have 32 levels, and 2^24 elements or pairs; own.go has the types of castnet's
// own. The last block may be smaller. Senders refuse long lists of lists of lists, of maps or of
// any.
//
// WIRE-6 measures a body, item by item along its type, if the worst body of its size would exceed
// the limit. A body of numbers and text takes about 20 times its size in Go. A list of maps with
// one pair in four bytes takes 98 times, and is refused from 31 kB on.
//
// All functions may be called on any goroutine. Errors name the malformed item and its place.
package wire
