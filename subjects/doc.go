// Package subjects holds castnet's names: the IDs of hosts, meshes, procs,
// actors and ports, and the NATS subjects made from them. On a broker an ID is
// an address: a subject is a pure function of the ID, nothing is looked up.
//
// # Rules
//
// A label is [A-Za-z0-9][A-Za-z0-9_-]{0,31}. A uid is 13 characters of [0-9a-z]
// from a secure source. Numbers are decimal uint32 without sign or leading
// zeros. A name is a label, or label-uid. A port is a label, or "_" and 1 to 31
// characters of [0-9a-z] for the ports the system opens; no other token of a
// user's starts with "_". What does not fit is an [*Error] that shows the rule,
// never an escape, never silently changed.
//
//	ID             text               example
//	HostID         label-uid          rack3n07-2m9qx1k4h0t7c
//	MeshID         label-uid          trainers-7kd93x0b5m2qa
//	ProcID         mesh/rank.gen      trainers-7kd93x0b5m2qa/12.0; with a seat mesh/rank.gen.seat
//	ProcessID      mesh_rank-gen      trainers-7kd93x0b5m2qa_12-0
//	ActorID        proc/name          trainers-7kd93x0b5m2qa/12.0/counter-0c8h4w2n6v1ye
//	PortID         actor:port         trainers-7kd93x0b5m2qa/12.0/counter-0c8h4w2n6v1ye:add
//
// Every proc is a rank of a mesh; a lone one (a client, the service proc of a
// host) is rank 0 of a unit mesh of its own. gen is the incarnation, from 0. Ranks
// in a row may share an OS process: all but the first have a seat, which is how
// many ranks they come after it. A ProcessID is one token for an OS process, named
// after the first proc in it, and a pure function of the ProcID.
//
// # The table
//
// Subjects start with <root>.v1.<namespace>, by default castnet.v1.default; v1
// is the version of the wire. <r> is rank-gen or rank-gen-seat. <process> is a ProcessID.
// <where> is 1 to 4 of a number or "_", joined by "-". <from> is the sender: a
// ProcessID, or the label of a foreign client ([Anon] without credentials). It
// is last (before the reply token in r.), so a NATS permission can pin it and
// the server authenticates the sender.
//
//	p.<mesh>.<r>.<actor>.<port>.<from>              a message to one port of one actor
//	k.<mesh>.<actor>.<port>.<where>.<from>          a cast to the procs of a proc mesh
//	f.<process>.<from>                              a packet of one link: many messages, or a repair
//	c.<process>.<from>                              the control lane of a process
//	h.<host>.<verb>.<from>                          request/reply with a host agent; "any" for each of them
//	cast.<meshname>.<actor>.<endpoint>.<from>       a cast by any NATS client, through the gateway
//	hb.<kind>.<from>                                heartbeats
//	ev.<kind>.<mesh>.<r>.<actor>.<from>             events ("_" where a part does not apply)
//	log.<mesh>.<r>.<stream>.<from>                  log lines
//	r.<from>.<token>                                replies to foreign clients (1 to 4 tokens, each a label)
//	n.<process>.<link>                              "no responders" hints; link is the publisher's own mark of the message
//
// # How to use it
//
//	space, err := subjects.NewSpace(root, namespace) // the zero Space is castnet.v1.default
//	subject := space.Port(id, from)                  // where to publish
//	filter := space.PortsOf(proc)                    // what to subscribe to
//	got, err := space.Parse(subject)                 // what a received message is
//
// Tokens that come from people or the wire are checked at the edge with
// [CheckLabel] and its kin, which say what is wrong.
//
// # Contract
//
// All types are small immutable values, comparable with ==, safe for concurrent
// use, their zero value invalid (Space apart, whose zero value is the default).
//
//   - SUB-1 One text per value: what a Parse function accepts, String gives back
//     unchanged, and two texts are never the same value.
//   - SUB-2 An invalid value has no text: String is "", marshaling is an error.
//   - SUB-3 A builder yields a subject that Parse accepts, or "" when a part is
//     invalid. NATS clients refuse the empty subject, so a bad part can never
//     become a wildcard or somebody else's subject.
//   - SUB-4 Parse takes one literal subject of its own Space and gives back what
//     the builder of its kind was given. Wildcards and empty tokens are errors.
//   - SUB-5 Parse of an accepted subject allocates nothing. Its fields share the
//     memory of the subject.
//   - SUB-6 No subject is longer than [MaxSubject] bytes.
//
// # Failure
//
// Every error is, or wraps, an [*Error] that names the input and what was
// expected. Nothing here panics, whatever the bytes.
package subjects
