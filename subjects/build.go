package subjects

import "strings"

// Builders come in pairs: the subject one publishes to, and the filter its
// subscriber uses. The comment of each shows the literal it yields after the
// Space. All keep SUB-3.

// Port is the subject of messages to one port:
//
//	p.trainers-7kd93x0b5m2qa.12-0.counter-0c8h4w2n6v1ye.add.<sender>
func (s Space) Port(id PortID, from Sender) string {
	return s.newBuilder(KindPort).proc(id.Actor.Proc).token(isName, id.Actor.Name).token(isPort,
		id.Port).sender(from).String()
}

// PortsOf is the filter of a proc for its ports:
//
//	p.trainers-7kd93x0b5m2qa.12-0.*.*.*.*
func (s Space) PortsOf(proc ProcID) string {
	return s.newBuilder(KindPort).proc(proc).any().any().anySender().String()
}

// PortsNamed is the filter for the ports of one name on all actors of a proc:
//
//	p.trainers-7kd93x0b5m2qa.12-0.*.add.*.*
func (s Space) PortsNamed(proc ProcID, port string) string {
	return s.newBuilder(KindPort).proc(proc).any().token(isPort, port).anySender().String()
}

// Cast is the subject of a cast to the procs of a proc mesh; [CheckCoords] has the rule of where:
//
//	k.trainers-7kd93x0b5m2qa.worker.step.3-_.<sender>
func (s Space) Cast(mesh MeshID, actor, port, where string, from Sender) string {
	return s.newBuilder(KindCast).token(isLabelUID, mesh.s).token(isName, actor).token(isPort,
		port).token(isCoords, where).sender(from).String()
}

// CastsOf is the filter of a proc for casts, once for each of its places:
//
//	k.trainers-7kd93x0b5m2qa.*.*.3-_.*.*
func (s Space) CastsOf(mesh MeshID, where string) string {
	return s.newBuilder(KindCast).token(isLabelUID, mesh.s).any().any().token(isCoords, where).anySender().
		String()
}

// Frame is the subject of frames to a process:
//
//	f.trainers-7kd93x0b5m2qa.12-0.<sender>
func (s Space) Frame(to ProcessID, from Sender) string {
	return s.newBuilder(KindFrame).process(to).sender(from).String()
}

// FramesOf is the filter of a process for frames:
//
//	f.trainers-7kd93x0b5m2qa.12-0.*.*
func (s Space) FramesOf(p ProcessID) string {
	return s.newBuilder(KindFrame).process(p).anySender().String()
}

// Control is the subject of control messages to a process:
//
//	c.trainers-7kd93x0b5m2qa.12-0.<sender>
func (s Space) Control(to ProcessID, from Sender) string {
	return s.newBuilder(KindControl).process(to).sender(from).String()
}

// ControlsOf is the filter of a process for control messages:
//
//	c.trainers-7kd93x0b5m2qa.12-0.*.*
func (s Space) ControlsOf(p ProcessID) string {
	return s.newBuilder(KindControl).process(p).anySender().String()
}

// HostRead is the subject of requests that read from a host agent; host is the text of a HostID, or
// [Any]:
//
//	hr.rack3n07-2m9qx1k4h0t7c.ping.<sender>
func (s Space) HostRead(host, verb string, from Sender) string {
	return s.newBuilder(KindHostRead).token(isHost, host).token(isLabel, verb).sender(from).String()
}

// HostReads is the filter of a host agent for those; an empty verb means all:
//
//	hr.rack3n07-2m9qx1k4h0t7c.ping.*.*
//	hr.rack3n07-2m9qx1k4h0t7c.*.*.*
func (s Space) HostReads(host, verb string) string {
	return s.newBuilder(KindHostRead).token(isHost, host).tokenOrAny(isLabel, verb).anySender().String()
}

// HostWrite is the subject of requests on which a host agent acts. There is none for every host:
//
//	hw.rack3n07-2m9qx1k4h0t7c.drain.<sender>
func (s Space) HostWrite(host HostID, verb string, from Sender) string {
	return s.newBuilder(KindHostWrite).token(isLabelUID, host.s).token(isLabel, verb).sender(from).String()
}

// HostWrites is the filter of a host agent for those; an empty verb means all:
//
//	hw.rack3n07-2m9qx1k4h0t7c.*.*.*
func (s Space) HostWrites(host HostID, verb string) string {
	return s.newBuilder(KindHostWrite).token(isLabelUID, host.s).tokenOrAny(isLabel, verb).anySender().
		String()
}

// HostEvent is the subject of events of a host about its procs:
//
//	hv.trainers-7kd93x0b5m2qa.12-0.<sender>
func (s Space) HostEvent(proc ProcID, from Sender) string {
	return s.newBuilder(KindHostEvent).proc(proc).sender(from).String()
}

// HostEvents is the filter for those; the zero mesh means all:
//
//	hv.trainers-7kd93x0b5m2qa.*.*.*
func (s Space) HostEvents(mesh MeshID) string {
	return s.newBuilder(KindHostEvent).tokenOrAny(isLabelUID, mesh.s).any().anySender().String()
}

// Gateway is the subject of casts by any NATS client; meshname is a mesh's label or whole ID:
//
//	cast.trainers.worker.step.<sender>
func (s Space) Gateway(meshname, actor, endpoint string, from Sender) string {
	return s.newBuilder(KindGateway).token(isName, meshname).token(isName, actor).token(isLabel,
		endpoint).sender(from).String()
}

// GatewayTo is the filter for casts to one endpoint by all clients:
//
//	cast.trainers.worker.step.*.*
func (s Space) GatewayTo(meshname, actor, endpoint string) string {
	return s.newBuilder(KindGateway).token(isName, meshname).token(isName, actor).token(isLabel,
		endpoint).anySender().String()
}

// Gateways is the filter of the gateway:
//
//	cast.*.*.*.*.*
func (s Space) Gateways() string {
	return s.newBuilder(KindGateway).any().any().any().anySender().String()
}

// Heartbeat is the subject of heartbeats:
//
//	hb.host.<sender>
func (s Space) Heartbeat(kind string, from Sender) string {
	return s.newBuilder(KindHeartbeat).token(isLabel, kind).sender(from).String()
}

// Heartbeats is the filter for heartbeats; an empty kind means all:
//
//	hb.host.*.*
func (s Space) Heartbeats(kind string) string {
	return s.newBuilder(KindHeartbeat).tokenOrAny(isLabel, kind).anySender().String()
}

// EventScope is the object of an event. The zero scope is the whole Space; a rank or an actor needs
// a mesh.
type EventScope struct {
	Mesh             MeshID
	Ranked           bool // Rank, Gen and Index apply
	Rank, Gen, Index uint32
	Actor            string
}

// Scope is the scope of events about the whole mesh.
func (m MeshID) Scope() EventScope { return EventScope{Mesh: m} }

// Scope is the scope of events about the proc.
func (p ProcID) Scope() EventScope {
	return EventScope{Mesh: p.Mesh, Ranked: true, Rank: p.Rank, Gen: p.Gen, Index: p.Index}
}

// Scope is the scope of events about the actor.
func (a ActorID) Scope() EventScope {
	scope := a.Proc.Scope()
	scope.Actor = a.Name
	return scope
}

// Event is the subject of events, with "_" for unused parts:
//
//	ev.exited.trainers-7kd93x0b5m2qa.12-0._.<sender>
func (s Space) Event(kind string, scope EventScope, from Sender) string {
	b := s.newBuilder(KindEvent).token(isLabel, kind).tokenOrNone(isLabelUID, scope.Mesh.s)
	if scope.Ranked {
		b = b.rank(scope.Rank, scope.Gen, scope.Index)
	} else {
		b = b.tokenOrNone(isName, "")
	}
	b = b.tokenOrNone(isName, scope.Actor).sender(from)
	b.invalid = b.invalid || !scope.Mesh.IsValid() && (scope.Ranked || scope.Actor != "")
	return b.String()
}

// Events is the filter of controllers and observers; an empty kind or mesh means all:
//
//	ev.*.trainers-7kd93x0b5m2qa.*.*.*.*
func (s Space) Events(kind string, mesh MeshID) string {
	return s.newBuilder(KindEvent).tokenOrAny(isLabel, kind).tokenOrAny(isLabelUID, mesh.s).any().any().
		anySender().String()
}

// EventsBy is the filter for events of a kind about a whole mesh by one process, whatever its
// principal:
//
//	ev.rank.trainers-7kd93x0b5m2qa._._.*.trainers-7kd93x0b5m2qa_12-0
func (s Space) EventsBy(kind string, mesh MeshID, process ProcessID) string {
	b := s.newBuilder(KindEvent).token(isLabel, kind).token(isLabelUID, mesh.s)
	b.text = append(b.text, "._._.*"...)
	return b.token(isProcess, process.s).String()
}

// ActorEvents is the filter for events about the actors of a name in a mesh:
//
//	ev.actor.trainers-7kd93x0b5m2qa.*.counter-0c8h4w2n6v1ye.*.*
func (s Space) ActorEvents(kind string, mesh MeshID, actor string) string {
	return s.newBuilder(KindEvent).token(isLabel, kind).token(isLabelUID, mesh.s).any().token(isName,
		actor).anySender().String()
}

// Log is the subject of an output stream of a proc:
//
//	log.trainers-7kd93x0b5m2qa.12-0.stderr.<sender>
func (s Space) Log(proc ProcID, stream string, from Sender) string {
	return s.newBuilder(KindLog).proc(proc).token(isLabel, stream).sender(from).String()
}

// Logs is the filter for log lines; the zero mesh means all:
//
//	log.trainers-7kd93x0b5m2qa.*.*.*.*
func (s Space) Logs(mesh MeshID) string {
	return s.newBuilder(KindLog).tokenOrAny(isLabelUID, mesh.s).any().any().anySender().String()
}

// Reply is the subject of replies to a sender:
//
//	r.<sender>.<token>
func (s Space) Reply(to Sender, token string) string {
	return s.newBuilder(KindReply).sender(to).token(isReplyToken, token).String()
}

// Replies is the filter of a sender for replies to it:
//
//	r.<sender>.>
func (s Space) Replies(to Sender) string {
	b := s.newBuilder(KindReply).sender(to)
	b.text = append(b.text, ".>"...)
	return b.String()
}

// Hint is the subject of NATS's "no responders" reports to a process. link is the publisher's own
// mark of the message, a label:
//
//	n.trainers-7kd93x0b5m2qa.12-0.<link>
func (s Space) Hint(p ProcessID, link string) string {
	return s.newBuilder(KindHint).process(p).token(isLabel, link).String()
}

// HintsOf is the filter of a process for hints, on its data connection:
//
//	n.trainers-7kd93x0b5m2qa.12-0.*
func (s Space) HintsOf(p ProcessID) string {
	return s.newBuilder(KindHint).process(p).any().String()
}

// builder builds a subject. It is a value: its text lives on the stack of the calling function, and
// the result is the only allocation.
type builder struct {
	text    []byte
	invalid bool // a part was invalid: there will be no subject
}

func (s Space) newBuilder(kind Kind) builder {
	return builder{text: append(append(make([]byte, 0, MaxSubject), s.prefixText()...), kind.String()...)}
}

func (b builder) token(is func(string) bool, t string) builder {
	b.invalid = b.invalid || !is(t)
	b.text = append(append(b.text, '.'), t...)
	return b
}

func (b builder) any() builder {
	b.text = append(b.text, ".*"...)
	return b
}

// tokenOrAny takes the empty token as "all".
func (b builder) tokenOrAny(is func(string) bool, t string) builder {
	if t == "" {
		return b.any()
	}
	return b.token(is, t)
}

// tokenOrNone takes the empty token as "does not apply".
func (b builder) tokenOrNone(is func(string) bool, t string) builder {
	if t == "" {
		b.text = append(b.text, "._"...)
		return b
	}
	return b.token(is, t)
}

func (b builder) proc(p ProcID) builder {
	return b.token(isLabelUID, p.Mesh.s).rank(p.Rank, p.Gen, p.Index)
}

func (b builder) rank(rank, gen, index uint32) builder {
	b.invalid = b.invalid || index > rank
	b.text = appendRank(append(b.text, '.'), rank, gen, index, '-')
	return b
}

// process appends <mesh>.<r> of a process, whose text has "_" for the dot.
func (b builder) process(p ProcessID) builder {
	at := strings.LastIndexByte(p.s, '_')
	if at < 0 {
		b.invalid = true
		return b
	}
	b.text = append(append(append(append(b.text, '.'), p.s[:at]...), '.'), p.s[at+1:]...)
	return b
}

func (b builder) sender(from Sender) builder {
	b.invalid = b.invalid || from.s == ""
	b.text = append(append(b.text, '.'), from.s...)
	return b
}

func (b builder) anySender() builder { return b.any().any() }

func (b builder) String() string {
	if b.invalid {
		return ""
	}
	return string(b.text)
}
