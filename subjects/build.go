package subjects

// Builders come in pairs: the subject one publishes to, and the filter its
// subscriber uses. The comment of each shows the literal it yields after the
// Space. All keep SUB-3.

// Port is where a message to one port goes:
//
//	p.trainers-7kd93x0b5m2qa.12-0.counter-0c8h4w2n6v1ye.add.<from>
func (s Space) Port(id PortID, from string) string {
	return s.open(KindPort).proc(id.Actor.Proc).token(isName, id.Actor.Name).token(isPort, id.Port).token(isFrom, from).String()
}

// PortsOf is what a proc subscribes to:
//
//	p.trainers-7kd93x0b5m2qa.12-0.*.*.*
func (s Space) PortsOf(proc ProcID) string {
	return s.open(KindPort).proc(proc).any().any().any().String()
}

// PortsNamed is what messages to the ports of one name go to, whichever actor of the proc has it:
//
//	p.trainers-7kd93x0b5m2qa.12-0.*.add.*
func (s Space) PortsNamed(proc ProcID, port string) string {
	return s.open(KindPort).proc(proc).any().token(isPort, port).any().String()
}

// Cast is where a cast to the procs of a proc mesh goes; where is ruled by
// [CheckWhere]:
//
//	k.trainers-7kd93x0b5m2qa.worker.step.3-_.<from>
func (s Space) Cast(mesh MeshID, actor, port, where, from string) string {
	return s.open(KindCast).token(isUnique, mesh.s).token(isName, actor).token(isPort, port).token(isWhere, where).token(isFrom, from).String()
}

// CastsOf is what a proc subscribes to, once for every place it is at:
//
//	k.trainers-7kd93x0b5m2qa.*.*.3-_.*
func (s Space) CastsOf(mesh MeshID, where string) string {
	return s.open(KindCast).token(isUnique, mesh.s).any().any().token(isWhere, where).any().String()
}

// Frame is where a frame for a process goes:
//
//	f.trainers-7kd93x0b5m2qa_12-0.<from>
func (s Space) Frame(to ProcessID, from string) string {
	return s.open(KindFrame).token(isFrom, to.s).token(isFrom, from).String()
}

// FramesOf is what a process subscribes to:
//
//	f.trainers-7kd93x0b5m2qa_12-0.*
func (s Space) FramesOf(p ProcessID) string {
	return s.open(KindFrame).token(isFrom, p.s).any().String()
}

// Control is the control lane of a process:
//
//	c.trainers-7kd93x0b5m2qa_12-0.<from>
func (s Space) Control(to ProcessID, from string) string {
	return s.open(KindControl).token(isFrom, to.s).token(isFrom, from).String()
}

// ControlsOf is what a process subscribes to:
//
//	c.trainers-7kd93x0b5m2qa_12-0.*
func (s Space) ControlsOf(p ProcessID) string {
	return s.open(KindControl).token(isFrom, p.s).any().String()
}

// Host is where a request to a host agent goes; host is the text of a HostID, or
// [Any]:
//
//	h.rack3n07-2m9qx1k4h0t7c.ping.<from>
func (s Space) Host(host, verb, from string) string {
	return s.open(KindHost).token(isHost, host).token(isLabel, verb).token(isFrom, from).String()
}

// HostVerbs is what a host agent subscribes to, an empty verb meaning all:
//
//	h.rack3n07-2m9qx1k4h0t7c.ping.*
//	h.rack3n07-2m9qx1k4h0t7c.*.*
func (s Space) HostVerbs(host, verb string) string {
	return s.open(KindHost).token(isHost, host).tokenOrAny(isLabel, verb).any().String()
}

// Gateway is where any NATS client casts to; meshname is a mesh's label or whole
// ID:
//
//	cast.trainers.worker.step.<from>
func (s Space) Gateway(meshname, actor, endpoint, from string) string {
	return s.open(KindGateway).token(isName, meshname).token(isName, actor).token(isLabel, endpoint).token(isFrom, from).String()
}

// GatewayTo is what casts to one endpoint go to, whoever sends them:
//
//	cast.trainers.worker.step.*
func (s Space) GatewayTo(meshname, actor, endpoint string) string {
	return s.open(KindGateway).token(isName, meshname).token(isName, actor).token(isLabel, endpoint).any().String()
}

// Gateways is what the gateway subscribes to:
//
//	cast.*.*.*.*
func (s Space) Gateways() string { return s.open(KindGateway).any().any().any().any().String() }

// Heartbeat is where heartbeats go:
//
//	hb.host.<from>
func (s Space) Heartbeat(kind, from string) string {
	return s.open(KindHeartbeat).token(isLabel, kind).token(isFrom, from).String()
}

// Heartbeats is what observers subscribe to, an empty kind meaning all:
//
//	hb.host.*
func (s Space) Heartbeats(kind string) string {
	return s.open(KindHeartbeat).tokenOrAny(isLabel, kind).any().String()
}

// EventScope is what an event is about. The zero scope is the whole Space; a
// rank or an actor needs a mesh.
type EventScope struct {
	Mesh            MeshID
	Ranked          bool // Rank, Gen and Seat apply
	Rank, Gen, Seat uint32
	Actor           string
}

// Scope is that of an event about the whole mesh.
func (m MeshID) Scope() EventScope { return EventScope{Mesh: m} }

// Scope is that of an event about the proc.
func (p ProcID) Scope() EventScope {
	return EventScope{Mesh: p.Mesh, Ranked: true, Rank: p.Rank, Gen: p.Gen, Seat: p.Seat}
}

// Scope is that of an event about the actor.
func (a ActorID) Scope() EventScope {
	scope := a.Proc.Scope()
	scope.Actor = a.Name
	return scope
}

// Event is where an event goes, with "_" for the parts that do not apply:
//
//	ev.exited.trainers-7kd93x0b5m2qa.12-0._.<from>
func (s Space) Event(kind string, scope EventScope, from string) string {
	b := s.open(KindEvent).token(isLabel, kind).tokenOrNone(isUnique, scope.Mesh.s)
	if scope.Ranked {
		b = b.rank(scope.Rank, scope.Gen, scope.Seat)
	} else {
		b = b.tokenOrNone(isName, "")
	}
	b = b.tokenOrNone(isName, scope.Actor).token(isFrom, from)
	b.bad = b.bad || !scope.Mesh.IsValid() && (scope.Ranked || scope.Actor != "")
	return b.String()
}

// Events is what controllers and observers subscribe to, an empty kind or mesh
// meaning all:
//
//	ev.*.trainers-7kd93x0b5m2qa.*.*.*
func (s Space) Events(kind string, mesh MeshID) string {
	return s.open(KindEvent).tokenOrAny(isLabel, kind).tokenOrAny(isUnique, mesh.s).any().any().any().String()
}

// ActorEvents is what those subscribe to who own the actors of a name in a mesh:
//
//	ev.actor.trainers-7kd93x0b5m2qa.*.counter-0c8h4w2n6v1ye.*
func (s Space) ActorEvents(kind string, mesh MeshID, actor string) string {
	return s.open(KindEvent).token(isLabel, kind).token(isUnique, mesh.s).any().token(isName, actor).any().String()
}

// FirstEvents is what those subscribe to who hear what becomes of the actors of a name, of any mesh, at
// its first rank:
//
//	ev.actor.*.0-0.agent.*
func (s Space) FirstEvents(kind, actor string) string {
	return s.open(KindEvent).token(isLabel, kind).any().rank(0, 0, 0).token(isName, actor).any().String()
}

// Log is where the lines of one output stream of a proc go:
//
//	log.trainers-7kd93x0b5m2qa.12-0.stderr.<from>
func (s Space) Log(proc ProcID, stream, from string) string {
	return s.open(KindLog).proc(proc).token(isLabel, stream).token(isFrom, from).String()
}

// Logs is what tailers subscribe to, the zero mesh meaning all:
//
//	log.trainers-7kd93x0b5m2qa.*.*.*
func (s Space) Logs(mesh MeshID) string {
	return s.open(KindLog).tokenOrAny(isUnique, mesh.s).any().any().any().String()
}

// Reply is where a reply to a foreign client goes:
//
//	r.<from>.<token>
func (s Space) Reply(from, token string) string {
	return s.open(KindReply).token(isFrom, from).token(isReplyToken, token).String()
}

// Replies is what a foreign client subscribes to:
//
//	r.<from>.>
func (s Space) Replies(from string) string {
	b := s.open(KindReply).token(isFrom, from)
	b.text = append(b.text, ".>"...)
	return b.String()
}

// Hint is where NATS says that what a process published has no receiver; link is
// the publisher's own mark of the message, a token ruled as <from>:
//
//	n.trainers-7kd93x0b5m2qa_12-0.<link>
func (s Space) Hint(p ProcessID, link string) string {
	return s.open(KindHint).token(isFrom, p.s).token(isFrom, link).String()
}

// HintsOf is what a process subscribes to on its data connection:
//
//	n.trainers-7kd93x0b5m2qa_12-0.*
func (s Space) HintsOf(p ProcessID) string { return s.open(KindHint).token(isFrom, p.s).any().String() }

// builder is a subject in the making. It is a value, so that its text lives on
// the stack of the builder function and one allocation, the result, is left.
type builder struct {
	text []byte
	bad  bool // a part was invalid: there will be no subject
}

func (s Space) open(kind Kind) builder {
	return builder{text: append(append(make([]byte, 0, MaxSubject), s.start()...), kind.String()...)}
}

func (b builder) token(is func(string) bool, t string) builder {
	b.bad = b.bad || !is(t)
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
	return b.token(isUnique, p.Mesh.s).rank(p.Rank, p.Gen, p.Seat)
}

func (b builder) rank(rank, gen, seat uint32) builder {
	b.bad = b.bad || seat > rank
	b.text = appendRank(append(b.text, '.'), rank, gen, seat, '-')
	return b
}

func (b builder) String() string {
	if b.bad {
		return ""
	}
	return string(b.text)
}
