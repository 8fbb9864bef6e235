// Package wire is the form castnet messages have on the bus: the frame in front of every message
// between castnet processes, and the CBOR modes its bodies use.
//
// A frame is a fixed binary header in front of an opaque body. The header is decoded by the pump
// that received it, the body once, by the goroutine that handles it:
//
//	0x00  version  kind  uvarint n  uvarint prev  uvarint ttl(ms)  str sender  str reply  str ext  body…
//
// where str is a uvarint length and that many bytes. Anything on a port's subject that does not
// start with 0x00 comes from a foreign NATS client and is JSON or CBOR as its Content-Type header
// or its first byte says (see Format).
//
// # Contract
//
//   - WIRE-1: Decode never panics and never allocates more than the input's own size; the
//     decoded frame shares the input's memory, so the caller must not reuse the buffer.
//   - WIRE-2: Marshal is deterministic (RFC 8949 §4.2.1): equal values give equal bytes.
//   - WIRE-3: Unknown fields of a CBOR map are ignored, so an older peer survives a newer one;
//     duplicate keys, indefinite lengths and tags are errors.
//   - WIRE-4: kinds, codes and the CBOR keys of wire structs are append-only.
//   - WIRE-5: what no peer would take is refused by Marshal (tags, big integers, functions), but
//     for text that is not UTF-8, which the receiver refuses. A panic of a type's own marshaler is
//     an error. Times keep their nanoseconds.
//
// All functions may be called on any goroutine. Errors name what was malformed and where.
package wire
