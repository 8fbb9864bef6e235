// Package wire is the form castnet messages have on the bus: packets, the envelopes in them, and the
// CBOR modes of bodies.
//
// A packet is one NATS message between two castnet processes: a head, and what its kind says. A Data
// packet holds envelopes, each of which is one message around an opaque body. Heads and envelopes are
// read by the pump that received them, a body once, by the goroutine that handles it:
//
//	packet    0x00  version  kind  flags  uvarint age(ms)  uvarint n  uvarint prev  [4 uvarint known]  rest…
//	envelope  kind|flags  [str actor  str port  str sender]  [uvarint ttl(ms)]  [str reply]  [str ext]  str body
//
// where str is a uvarint length and that many bytes, and what is in brackets is there when a flag says
// so. Anything on a port's subject that does not start with 0x00 comes from a foreign NATS client and
// is JSON or CBOR as its Content-Type header or its first byte says (see Format).
//
// # Contract
//
//   - WIRE-1: decoders of packets never panic, and take at most twice the packet's size and 4 KiB, for
//     names; what they return shares the packet's memory, so the caller must not reuse the buffer.
//     Nothing they return lies outside of what it says it is a part of.
//   - WIRE-2: Marshal is deterministic (RFC 8949 §4.2.1): equal values give equal bytes.
//   - WIRE-3: unknown fields of a CBOR map are ignored, so an older peer survives a newer one, and a
//     message that has some is counted, once, where the caller gives a counter. Duplicate keys,
//     indefinite lengths, tags and text that is not UTF-8 are errors; an unknown field is skipped, so
//     duplicate keys and such text within it are not seen.
//   - WIRE-4: kinds, codes and the CBOR keys of wire structs are append-only, and their bytes stay.
//   - WIRE-5: what no peer would take is refused by Marshal (tags, big integers, functions), but
//     for text that is not UTF-8, which the receiver refuses. A panic of a type's own marshaler is
//     an error. Times keep their nanoseconds.
//   - WIRE-6: reading a body, CBOR or JSON, takes at most 64 bytes for each of its bytes, and 1 MiB,
//     whatever lengths it claims and into whatever type: what would take more is refused with a
//     *TooLargeError, before anything is taken. It is measured for that, item by item beside the type,
//     when it is so large that the worst body of its size would take too much. Of what it takes in Go, a
//     body of numbers and text has about 20 times its size; a list of nothing but maps of one pair in
//     four bytes has 98 times, and is refused from 31 kB on. What types with methods of their own take
//     that read them is their owners' matter.
//   - WIRE-7: what castnet says itself has at most 16 levels, 65,536 elements in an array and 4,096 pairs in a map: packets,
//     and all bodies whose type, or that of what they list, is declared in a package with words of its protocol (own.go).
//     The body of a user may have 32 levels, and 2^24 elements or pairs: its receiver's type says what is in it. WIRE-6
//     bounds what either takes.
//   - WIRE-8: what castnet says itself may list more all the same. Such a list travels as an array of blocks, arrays of
//     65,536 of its elements each, but for the last, which may have fewer; such a map as an array of maps of 4,096 of its
//     pairs. A shorter one has the bytes it always had. Blocks that nobody would cut so are refused; what nobody could
//     tell from blocks is, by its sender: long lists of lists of lists, of maps, of any.
//   - WIRE-9: what holds itself, is more than 1,000 pointers, interfaces and containers deep, or has more than 2^26 items is
//     refused before it is encoded, as CBOR and as JSON. So is CBOR with more levels than its receiver reads.
//
// All functions may be called on any goroutine. Errors name what was malformed and where.
package wire
