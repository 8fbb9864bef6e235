package subjects

// Builders come in pairs: the subject one publishes to, and the filter its
// subscriber uses. The comment of each shows the literal it yields after the
// Space. All keep SUB-3.

// Port is the subject of messages to one port:
//
//	p.trainers-7kd93x0b5m2qa.12-0.counter-0c8h4w2n6v1ye.add.<from>
func (s Space) Port(id PortID, from string) string {
	return s.newBuilder(KindPort).proc(id.Actor.Proc).token(isName, id.Actor.Name).token(isPort,
		id.Port).token(isFrom, from).String()
}

// PortsOf is the filter of a proc for its ports:
//
//	p.trainers-7kd93x0b5m2qa.12-0.*.*.*
func (s Space) PortsOf(proc ProcID) string {
	return s.newBuilder(KindPort).proc(proc).any().any().any().String()
}

// PortsNamed is the filter for the ports of one name on all actors of a proc:
//
//	p.trainers-7kd93x0b5m2qa.12-0.*.add.*
func (s Space) PortsNamed(proc ProcID, port string) string {
	return s.newBuilder(KindPort).proc(proc).any().token(isPort, port).any().String()
}

// Cast is the subject of a cast to the procs of a proc mesh; [CheckCoords] has the rule of where:
//
//	k.trainers-7kd93x0b5m2qa.worker.step.3-_.<from>
func (s Space) Cast(mesh MeshID, actor, port, where, from string) string {
	return s.newBuilder(KindCast).token(isLabelUID, mesh.s).token(isName, actor).token(isPort,
		port).token(isCoords, where).token(isFrom, from).String()
}

// CastsOf is the filter of a proc for casts, once for each of its places:
//
//	k.trainers-7kd93x0b5m2qa.*.*.3-_.*
func (s Space) CastsOf(mesh MeshID, where string) string {
	return s.newBuilder(KindCast).token(isLabelUID, mesh.s).any().any().token(isCoords, where).any().String()
}

// Frame is the subject of frames to a process:
//
//	f.trainers-7kd93x0b5m2qa_12-0.<from>
func (s Space) Frame(to ProcessID, from string) string {
	return s.newBuilder(KindFrame).token(isFrom, to.s).token(isFrom, from).String()
}

// FramesOf is the filter of a process for frames:
//
//	f.trainers-7kd93x0b5m2qa_12-0.*
func (s Space) FramesOf(p ProcessID) string {
	return s.newBuilder(KindFrame).token(isFrom, p.s).any().String()
}

// Control is the subject of control messages to a process:
//
//	c.trainers-7kd93x0b5m2qa_12-0.<from>
func (s Space) Control(to ProcessID, from string) string {
	return s.newBuilder(KindControl).token(isFrom, to.s).token(isFrom, from).String()
}

// ControlsOf is the filter of a process for control messages:
//
//	c.trainers-7kd93x0b5m2qa_12-0.*
func (s Space) ControlsOf(p ProcessID) string {
	return s.newBuilder(KindControl).token(isFrom, p.s).any().String()
}

// Host is the subject of requests to a host agent; host is the text of a HostID, or [Any]:
//
//	h.rack3n07-2m9qx1k4h0t7c.ping.<from>
func (s Space) Host(host, verb, from string) string {
	return s.newBuilder(KindHost).token(isHost, host).token(isLabel, verb).token(isFrom, from).String()
}

// HostVerbs is the filter of a host agent for requests; an empty verb means all:
//
//	h.rack3n07-2m9qx1k4h0t7c.ping.*
//	h.rack3n07-2m9qx1k4h0t7c.*.*
func (s Space) HostVerbs(host, verb string) string {
	return s.newBuilder(KindHost).token(isHost, host).tokenOrAny(isLabel, verb).any().String()
}

// Gateway is the subject of casts by any NATS client; meshname is a mesh's label or whole ID:
//
//	cast.trainers.worker.step.<from>
func (s Space) Gateway(meshname, actor, endpoint, from string) string {
	return s.newBuilder(KindGateway).token(isName, meshname).token(isName, actor).token(isLabel,
		endpoint).token(isFrom, from).String()
}

// GatewayTo is the filter for casts to one endpoint by all clients:
//
//	cast.trainers.worker.step.*
func (s Space) GatewayTo(meshname, actor, endpoint string) string {
	return s.newBuilder(KindGateway).token(isName, meshname).token(isName, actor).token(isLabel,
		endpoint).any().String()
}

// Gateways is the filter of the gateway:
//
//	cast.*.*.*.*
func (s Space) Gateways() string { return s.newBuilder(KindGateway).any().any().any().any().String() }

// Heartbeat is the subject of heartbeats:
//
//	hb.host.<from>
func (s Space) Heartbeat(kind, from string) string {
	return s.newBuilder(KindHeartbeat).token(isLabel, kind).token(isFrom, from).String()
}

// Heartbeats is the filter for heartbeats; an empty kind means all:
//
//	hb.host.*
func (s Space) Heartbeats(kind string) string {
	return s.newBuilder(KindHeartbeat).tokenOrAny(isLabel, kind).any().String()
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
//	ev.exited.trainers-7kd93x0b5m2qa.12-0._.<from>
func (s Space) Event(kind string, scope EventScope, from string) string {
	b := s.newBuilder(KindEvent).token(isLabel, kind).tokenOrNone(isLabelUID, scope.Mesh.s)
	if scope.Ranked {
		b = b.rank(scope.Rank, scope.Gen, scope.Index)
	} else {
		b = b.tokenOrNone(isName, "")
	}
	b = b.tokenOrNone(isName, scope.Actor).token(isFrom, from)
	b.invalid = b.invalid || !scope.Mesh.IsValid() && (scope.Ranked || scope.Actor != "")
	return b.String()
}

// Events is the filter of controllers and observers; an empty kind or mesh means all:
//
//	ev.*.trainers-7kd93x0b5m2qa.*.*.*
func (s Space) Events(kind string, mesh MeshID) string {
	return s.newBuilder(KindEvent).tokenOrAny(isLabel, kind).tokenOrAny(isLabelUID, mesh.s).any().any().any().
		String()
}

// ActorEvents is the filter for events about the actors of a name in a mesh:
//
//	ev.actor.trainers-7kd93x0b5m2qa.*.counter-0c8h4w2n6v1ye.*
func (s Space) ActorEvents(kind string, mesh MeshID, actor string) string {
	return s.newBuilder(KindEvent).token(isLabel, kind).token(isLabelUID, mesh.s).any().token(isName,
		actor).any().String()
}

// RankZeroEvents is the filter for events about the actors of a name at the first rank of any mesh:
//
//	ev.actor.*.0-0.agent.*
func (s Space) RankZeroEvents(kind, actor string) string {
	return s.newBuilder(KindEvent).token(isLabel, kind).any().rank(0, 0, 0).token(isName, actor).any().
		String()
}

// Log is the subject of an output stream of a proc:
//
//	log.trainers-7kd93x0b5m2qa.12-0.stderr.<from>
func (s Space) Log(proc ProcID, stream, from string) string {
	return s.newBuilder(KindLog).proc(proc).token(isLabel, stream).token(isFrom, from).String()
}

// Logs is the filter for log lines; the zero mesh means all:
//
//	log.trainers-7kd93x0b5m2qa.*.*.*
func (s Space) Logs(mesh MeshID) string {
	return s.newBuilder(KindLog).tokenOrAny(isLabelUID, mesh.s).any().any().any().String()
}

// Reply is the subject of replies to a foreign client:
//
//	r.<from>.<token>
func (s Space) Reply(from, token string) string {
	return s.newBuilder(KindReply).token(isFrom, from).token(isReplyToken, token).String()
}

// Replies is the filter of a foreign client for replies:
//
//	r.<from>.>
func (s Space) Replies(from string) string {
	b := s.newBuilder(KindReply).token(isFrom, from)
	b.text = append(b.text, ".>"...)
	return b.String()
}

// Hint is the subject of NATS's "no responders" reports to a process. link is the publisher's own
// mark of the message, with the rule of <from>:
//
//	n.trainers-7kd93x0b5m2qa_12-0.<link>
func (s Space) Hint(p ProcessID, link string) string {
	return s.newBuilder(KindHint).token(isFrom, p.s).token(isFrom, link).String()
}

// HintsOf is the filter of a process for hints, on its data connection:
//
//	n.trainers-7kd93x0b5m2qa_12-0.*
func (s Space) HintsOf(p ProcessID) string {
	return s.newBuilder(KindHint).token(isFrom, p.s).any().String()
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

func (b builder) String() string {
	if b.invalid {
		return ""
	}
	return string(b.text)
}
