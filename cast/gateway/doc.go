// Package gateway lets any NATS client cast to a mesh and get one true answer. hostd runs one on every host.
//
//	nats req castnet.v1.default.cast.trainers.worker.step.anon '{"n":1}' -H Castnet-Reduce:sum
//
// # Requests
//
// A request goes to cast.<meshname>.<actor>.<endpoint>.<from>; mesh and actor are labels or full names, from
// is the sender's name, or anon. The body is the message, in JSON or CBOR by Content-Type, else by its first
// byte; none is the endpoint's zero message. Headers, all optional:
//
//	Castnet-Region   whom, such as host=0:2,gpu=*; default all
//	Castnet-Collect  gather (default) | stream | reduce | post | choose
//	Castnet-Reduce   a built-in reducer (sum, count, top(3) …) or one the endpoint declares; implies reduce
//	Castnet-TTL      until when, a Go duration of at most gateway.deadline, 10m; default 30s
//
// # Answers
//
// An answer is in the request's format. Its last message says what it covers: Castnet-Asked, -Answered,
// -Failed, -Missing, and -Failed-Region and -Missing-Region where there is any. Asked are the ranks of the
// region; failed those that answered with an error, whose answer cannot be said (too large, no JSON), or that
// are known to be gone; missing those that said nothing until the deadline.
//
//	reduce  one message, the folded value
//	gather  one message, an array by rank of the region, null where there is no value
//	choose  one message, the value, and Castnet-Rank and Castnet-Point in the whole mesh
//	post    one empty message, once all were published to; nobody answers, so there is no Castnet-Answered,
//	        and failed are those that are known to be gone, to whom nothing was published
//	stream  one message per rank as it answers, with rank and point; then an empty one
//
// A value folded or gathered from some of the ranks has the reasons of the others in Castnet-Partial. Errors
// have Nats-Service-Error, a number like HTTP's in Nats-Service-Error-Code, and a body: 400 the request, 404
// no such mesh, actor or endpoint, 410 it is gone, 413 the answer does not fit, 429 too many, 503 the gateway or the bus, 504
// nobody answered in time; else that of the first rank that failed. After the error of a request with
// Castnet-Collect: stream comes an empty message, too, whatever else is wrong with the request: there nobody
// may have been asked. It has no coverage where that is not known, since the gateway died.
//
// # Contract
//
//   - GW-1: each request with a reply subject is answered, at the latest shortly after its deadline, be it
//     good or bad; up to 30 s later when the gateway has lost its server meanwhile. Only an answer that the
//     sender may not have sent elsewhere, and a request without a reply subject that is no post, are counted
//     and logged instead. Nothing is cast for those.
//   - GW-2: an empty message ends an answer; nothing else is empty. It is sent when every rank has answered,
//     failed, or is missing at the deadline, never because nothing has come for a while.
//   - GW-3: the coverage adds up, asked = answered + failed + missing, and is that of what was said: a rank of a
//     stream has answered if its value was sent.
//   - GW-4: before it casts, a gateway tells the others which request it has accepted. When it dies, one of
//     those that live answers 503: whether the cast ran is not known. With one gateway nobody can tell, and
//     nobody can of a request that it had not yet read.
//   - GW-5: a cast to a mesh that was cast to before asks nobody where it is. What turns out to be out of
//     date is looked up anew, once, and cast again, if no handler can have run. What is known stays when
//     hosts cannot be asked; and whatever dies, it is looked up once a second at most. One look serves all who
//     wait for any mesh.
//   - GW-6: bounded: 1,024 casts at a time whose bodies have 64 MiB, 1,024 names in the cache, what one sender may send in a second,
//     looks, and claims of others. What is beyond is refused with 503 or 429; what finds no room in the queue before that is
//     dropped, and counted in STATS.
//
// # Several gateways
//
// They are one queue group, and tell each other in JSON: on hb.gateway.<from> that they are there, on
// hb.claim.<from> what they have claimed and released. The three gateways with the lowest IDs keep the claims
// of each of the others, so that four listen to claims; and ask it every 250 ms, as long as they hold any, at
// port alive of its actor gateway. One that has heard of no other in 3 s claims nothing. Who is heard by nobody
// for 1 s, or is silent for 3 s, has died.
// The lowest answers; if it does not either, the next one after a second. A gateway that was cut off for
// longer and comes back answers, too: the first answer counts. One that was stopped itself takes nobody for
// dead until it has listened for 3 s.
//
// # Limits
//
// JSON becomes CBOR without knowing the endpoint's types: bytes are sent as CBOR, fields have the names that
// CBOR has, and answers with keys that are no texts have no JSON form.
//
// A request that is on a connection when that is cut is lost, as any message of NATS, and so is a rank's message of
// a stream: GW-1 is the gateway's word, not the wire's. The client's own timeout ends the wait. Any other answer,
// and the end of a stream, which says how many have answered, is said again on the next connection unless the
// server is known to have it, so it may come twice.
//
// The first cast to a mesh asks the hosts that are known, and its procs what runs there. Hosts say when they
// start and stop; so that there is no such mesh is said only after a look at all hosts, known or not, which ends
// when none has answered for 200 ms. A mesh of the same label on a host that nobody has heard of is not noticed.
//
// # Discovery
//
// A gateway is the micro service castnet-gateway: its INFO lists every endpoint of every live actor mesh. On
// hb.hosts.<from> one of them answers with the hosts that it knows (agent.HostListing, in CBOR): the state of each, how long
// a silent one has been so, and whether every live host is among them. So a look for hosts knows when all have
// answered, and who is missing. The gateway watches these hosts (package agent/presence), asks all hosts again
// when it is asked, once a second at most, and begins with the list of another gateway. A host that said goodbye is
// dropped; so is one that has been dead for discovery.remember, or whose label a live host has.
//
// Done says that the gateway has lost its bus for good; hostd starts another one then. Close takes no more
// requests, answers 503 to those that the server has sent it already (nothing was cast) and to those under way
// (that is not known), and waits. No goroutine outlives it, unless its context ends before.
package gateway
