// Package gateway lets any NATS client cast to a mesh and get one true answer. hostd runs one on
// every host.
//
//	nats req castnet.v1.default.cast.trainers.worker.step.u-anon.x '{"n":1}' -H Castnet-Reduce:sum
//
// # Requests
//
// A request goes to cast.<meshname>.<actor>.<endpoint>.<from>. Mesh and actor are labels or full
// names; from is the sender's name, or anon. The body is the message, in JSON or CBOR by
// Content-Type, else by its first byte. An empty body is the endpoint's zero message. Headers, all
// optional:
//
//	Castnet-Region   the ranks, such as host=0:2,gpu=* or the union host=0|gpu=3; default all
//	Castnet-Collect  gather (default) | stream | reduce | send | choose
//	Castnet-Reduce   a built-in reducer (sum, top(3) …) or one the endpoint declares; implies reduce
//	Castnet-TTL      time limit, a Go duration of at most gateway.max-timeout, 10m; default 30s
//
// # Answers
//
// An answer has the request's format. Its last message carries the coverage: Castnet-Asked,
// -Answered, -Failed, -Missing, and, unless empty, -Failed-Region and -Missing-Region. Asked counts
// the ranks of the region. Failed counts ranks with an error, with an answer that is too large or
// has no JSON form, or known to be gone. Missing counts ranks without an answer at the deadline.
//
//	reduce  one message, the folded value
//	gather  one message, an array by rank of the region, null where there is no value; of a union by
//	        rank of the mesh
//	choose  one message, the value, and Castnet-Rank and Castnet-Point in the whole mesh
//	send    one empty message, once every live rank was published to; there is no
//	        Castnet-Answered, and failed are the ranks known to be gone
//	stream  one message per rank as it answers, with rank and point; then an empty one
//
// If a folded or gathered value lacks ranks, Castnet-Partial has their reasons. Errors have
// Nats-Service-Error, Nats-Service-Error-Code (numbered as in HTTP), and a body:
//
//	400  the request is wrong
//	404  no such mesh, actor or endpoint
//	410  it is gone
//	413  the answer does not fit
//	429  too many requests
//	503  the gateway or the bus
//	504  no rank answered in time
//
// Other errors have the code of the first failed rank. After an error, a request with
// Castnet-Collect: stream always gets an empty message too. That message has no coverage if the
// gateway died.
//
// # Contract
//
//   - GW-1 (an answer each): Each request with a reply subject gets an answer shortly after its
//     deadline at the latest, or 30 s later if the gateway lost its server. Others (except send),
//     and forbidden reply subjects, are counted and logged, not cast.
//   - GW-2 (end of answer): An empty message ends an answer; no other message is empty. It is sent
//     once every rank has answered, failed, or is missing at the deadline. The coverage adds up:
//     asked = answered + failed + missing.
//   - GW-4 (dead gateway): Before a gateway casts, it announces the accepted request to the
//     others. If it dies, a live one answers 503: the cast may have run. A single gateway, or a
//     request that was not yet read, has no such answer.
//   - GW-5 (cache): A repeated cast asks no host for the mesh. A stale entry is looked up and
//     cast again, once, if no handler can have run. Silent hosts remove no entry. Each has one
//     lookup a second, which concurrent requests share.
//   - GW-6 (bounds): At most 1,024 casts run, with 64 MiB of bodies; 1,024 names are cached.
//     Requests per sender and second, lookups, and claims have bounds. Excess gets 503 or 429. A
//     full queue drops requests and counts them in STATS.
//   - GW-7 (actor meshes only): A gateway casts to actors that were spawned on a mesh. Agents,
//     controllers and other actors of a proc answer 404, whatever name the request has.
//
// # Details
//
// A pause alone never ends an answer. The coverage covers the sent values: a rank of a stream has
// answered if its value was sent.
//
// # Several gateways
//
// Gateways are one queue group. A host announces in its heartbeats the gateway that serves in its
// hostd. Each gateway watches all hosts (package presence), and so knows the other gateways. One
// that knows no other claims nothing. Claims and releases are JSON, on hb.claim.<from>. The three
// gateways with the lowest IDs keep the claims of each other gateway, so that four listen to
// claims.
//
// A gateway is dead once no host that may be alive has announced it for 1 s, or for 10 s if none
// has so far. So it is dead 1 s after its host, or after its host announces another gateway or
// none. A gateway that cannot hear declares no other dead.
//
// The lowest gateway answers for a dead one; if it does not, the next one answers after a second. A
// gateway that was cut off for longer also answers when it returns; the first answer counts.
//
// # Limits
//
// JSON becomes CBOR without the endpoint's types. Bytes are sent as CBOR, fields have their CBOR
// names, and answers with keys other than texts have no JSON form.
//
// NATS loses messages on a connection that is cut: requests, and single messages of a stream. GW-1
// covers the gateway only; the client's own timeout ends the wait. Every other answer, and the end
// of a stream with its count of answers, is sent again on the next connection unless the server is
// known to have it. It may arrive twice.
//
// The first cast to a mesh asks the known hosts, and its procs for their actors. A heartbeat makes
// its host known. A mesh is reported as missing only after a look at all hosts, known or not; the
// look ends after 200 ms without an answer. A second mesh of the same label on an unknown host goes
// unnoticed.
//
// # Discovery
//
// A gateway is the micro service castnet-gateway: its INFO lists every endpoint of every live actor
// mesh. On hb.hosts.<from> one gateway answers with its known hosts (agent.HostList, in CBOR):
// the state of each, the length of its silence, and whether the list has every live host. So a
// search for hosts can tell when it is complete, and name missing hosts. The gateway watches these
// hosts (package presence) and starts with the list of another gateway. On request it asks
// all hosts again, once a second at most. It drops hosts that said goodbye, that were dead for
// discovery.dead-host-retention, or whose label a live host has.
//
// Done reports that the gateway has lost its bus for good; hostd then starts another one. Close
// refuses new requests. It answers 503 to delivered requests (not cast) and to running ones
// (outcome unknown), and waits. No goroutine outlives Close, unless its context ends first.
package gateway
