// Package subjects holds castnet's names: the IDs of hosts, meshes, procs, actors and ports, and
// the NATS subjects made from them. An ID is an address: its subject is a pure function of the ID,
// without any lookup.
//
// # Rules
//
// A label is [A-Za-z0-9][A-Za-z0-9_-]{0,31}. A uid is 13 characters of [0-9a-z] from a secure
// source. Numbers are decimal uint32 without sign or leading zeros. A name is a label, or
// label-uid. A port is a label, or "_" and 1 to 31 characters of [0-9a-z] for the ports opened by
// the system; no other token of a user starts with "_". Any other text is an [*Error] with the
// rule. Texts are never escaped or changed.
//
//	ID             text               example
//	HostID         label-uid          rack3n07-2m9qx1k4h0t7c
//	MeshID         label-uid          trainers-7kd93x0b5m2qa
//	ProcID         mesh/rank.gen      trainers-7kd93x0b5m2qa/12.0; with an index mesh/rank.gen.index
//	ProcessID      mesh_rank-gen      trainers-7kd93x0b5m2qa_12-0
//	ActorID        proc/name          trainers-7kd93x0b5m2qa/12.0/counter-0c8h4w2n6v1ye
//	PortID         actor:port         trainers-7kd93x0b5m2qa/12.0/counter-0c8h4w2n6v1ye:add
//
// Every proc is a rank of a mesh; a lone one (a client, the service proc of a host) is rank 0 of
// its own unit mesh. gen is the generation, from 0. Consecutive ranks may share an OS process: all
// but the first have an index, the number of ranks they come after it. A ProcessID is one token for
// an OS process. It has the name of the first proc there, and is a pure function of the ProcID.
//
// # The table
//
// Subjects start with <root>.v1.<namespace>, by default castnet.v1.default; v1 is the version of
// the wire. <r> is rank-gen or rank-gen-index, without an index where it names an OS process.
// <where> is 1 to 4 of a number or "_", joined by "-". <sender> is two tokens at the end (before
// the reply token in r.), so NATS permissions can pin it and the server authenticates the sender:
//
//	<sender>     <principal>.<process>
//	<principal>  a letter, "-" and a label: the role, and the host or user with that role
//	<process>    a ProcessID, or the label of a foreign client
//
//	h-<host>     a hostd                        u-<user>     a program
//	p-<host>     a proc launched by that hostd  o-<user>     an operator
//	s-<host>     a system controller            w-<user>     an observer
//	g-<host>     a gateway                      c-<user>     a caster, which uses gateways
//	u-anon       a program of an unknown user
//
// A client without credentials is [Anon]: u-anon.x.
//
//	p.<mesh>.<r>.<actor>.<port>.<sender>            a message to one port of one actor
//	k.<mesh>.<actor>.<port>.<where>.<sender>        a cast to the procs of a proc mesh
//	f.<mesh>.<r>.<sender>                           a packet of one link: many messages, or a repair
//	c.<mesh>.<r>.<sender>                           control messages of a process
//	n.<mesh>.<r>.<link>                             "no responders" hints, by the publisher's mark
//	hr.<host>.<verb>.<sender>                       a request that reads from a host agent, or "any"
//	hw.<host>.<verb>.<sender>                       a request on which a host agent acts
//	hv.<mesh>.<r>.<sender>                          events of a host about its procs
//	hb.<kind>.<sender>                              heartbeats
//	cast.<meshname>.<actor>.<endpoint>.<sender>     a cast by any NATS client, through the gateway
//	ev.<kind>.<mesh>.<r>.<actor>.<sender>           events ("_" where a part does not apply)
//	log.<mesh>.<r>.<stream>.<sender>                log lines
//	r.<sender>.<token>                              replies to that sender (1 to 4 labels)
//
// # How to use it
//
//	space, err := subjects.NewSpace(root, namespace) // the zero Space is castnet.v1.default
//	subject := space.Port(id, sender)                // to publish to
//	filter := space.PortsOf(proc)                    // to subscribe to
//	got, err := space.Parse(subject)                 // the parts of a received subject
//
// Check tokens from people or the wire at the edge by [CheckLabel] and its kin; their errors
// describe the fault.
//
// # Contract
//
// All types are small immutable values, comparable with ==, safe for concurrent use. Their zero
// value is invalid, except the zero Space, the default.
//
//   - SUB-1 (one text): Each valid value has one text. Parse functions and String are inverse, and
//     two different texts are never the same value. An invalid value has no text: String is "",
//     marshaling is an error.
//   - SUB-3 (subjects): A builder yields a subject of at most [MaxSubject] bytes, or "" if a part
//     is invalid. Parse takes one literal subject of its own Space and returns the arguments of
//     its builder. Wildcards and empty tokens are errors.
//   - SUB-5 (no allocation): Parse of an accepted subject allocates nothing. Its fields share the
//     memory of the subject.
//   - SUB-7 (grants): Grants lets a user publish as itself only, and answer plain clients. One
//     process of a proc hears its own rank, its mesh and events. No text of a name is a wildcard
//     there.
//
// # Details
//
// NATS clients refuse the empty subject, so a bad part can never become a wildcard or another
// sender's subject.
//
// # Failure
//
// Every error is, or wraps, an [*Error] with the input and the expected form. No function here
// panics, whatever the bytes.
package subjects
