package subjects

import (
	"fmt"
	"strings"
)

// Subject is a parsed subject. Beyond Kind, a field is set only if the kind has it, as listed;
// Sender is set for all but KindHint.
type Subject struct {
	Kind    Kind
	HasRank bool   // p, f, c, n, hv, log, and ev about a rank: Proc is set
	Proc    ProcID // the same; in f, c and n the first one of a process
	Mesh    MeshID // p, k, f, c, n, hv, log, and ev about a mesh

	Actor    string // p, k, cast, and ev about an actor
	Port     string // p, k
	Coords   string // k
	Host     string // hr: the text of a HostID, or Any; hw: the text of a HostID
	Verb     string // hr, hw
	MeshName string // cast
	Endpoint string // cast
	Event    string // hb, ev: the <kind> token
	Stream   string // log
	Link     string // n
	Token    string // r: 1 to 4 tokens
	Sender   Sender // in r, the receiver of the reply
}

// Scope is the object of an event.
func (s Subject) Scope() EventScope {
	return EventScope{Mesh: s.Mesh, Ranked: s.HasRank, Rank: s.Proc.Rank, Gen: s.Proc.Gen,
		Index: s.Proc.Index, Actor: s.Actor}
}

// Parse reads a literal subject of this Space (SUB-3, SUB-5).
func (s Space) Parse(subject string) (Subject, error) {
	rest, ok := strings.CutPrefix(subject, s.prefixText())
	if !ok {
		return Subject{}, &Error{What: "subject", Input: subject, Want: "one that starts with " +
			s.prefixText()}
	}
	p := parser{all: rest, rest: rest, more: true}
	out := p.subject()
	if p.err == nil && p.more {
		p.failShape()
	}
	if p.err != nil {
		return Subject{}, fmt.Errorf("subject %.*q: %w", MaxSubject, subject, p.err)
	}
	return out, nil
}

// parser eats a subject token by token. After the first error its answers mean
// nothing.
type parser struct {
	all  string // the text after the Space
	rest string // the unread text
	more bool   // a token is left
	kind Kind
	err  error
}

func (p *parser) subject() Subject {
	first := p.next()
	p.kind = kindOf(first)
	out := Subject{Kind: p.kind}
	switch p.kind {
	case KindPort:
		p.proc(&out)
		out.Actor = p.name("actor name")
		out.Port = p.port()
	case KindCast:
		out.Mesh = p.mesh()
		out.Actor = p.name("actor name")
		out.Port = p.port()
		out.Coords = p.token(isCoords, "place", wantCoords)
	case KindFrame, KindControl:
		p.process(&out)
	case KindHint:
		p.process(&out)
		out.Link = p.label("link")
		return out
	case KindHostRead:
		out.Host = p.token(isHost, "host", wantHost)
		out.Verb = p.label("verb")
	case KindHostWrite:
		out.Host = p.token(isLabelUID, "host ID", wantUID)
		out.Verb = p.label("verb")
	case KindHostEvent:
		p.proc(&out)
	case KindHeartbeat:
		out.Event = p.label("heartbeat kind")
	case KindGateway:
		out.MeshName = p.name("mesh name")
		out.Actor = p.name("actor name")
		out.Endpoint = p.label("endpoint")
	case KindEvent:
		p.event(&out)
	case KindLog:
		p.proc(&out)
		out.Stream = p.label("stream")
	case KindReply:
		out.Sender = p.sender()
		p.replyToken(&out)
		return out
	default:
		p.fail("subject kind", first, "one of p k f c n hr hw hv hb cast ev log r")
		return out
	}
	out.Sender = p.sender()
	return out
}

// sender parses <principal>.<process>.
func (p *parser) sender() Sender {
	pair := p.rest
	principal := p.token(isPrincipal, "principal", wantPrincipal)
	process := p.token(isProcess, "sender's process", wantProcess)
	if p.err != nil {
		return Sender{}
	}
	return Sender{pair[:len(principal)+1+len(process)]}
}

// replyToken parses the rest of r., the one kind without its sender at the end.
func (p *parser) replyToken(out *Subject) {
	out.Token = p.rest
	if !p.more || !isReplyToken(out.Token) {
		p.fail("reply token", out.Token, "1 to 4 labels joined by dots; a label is "+wantLabel)
	}
	p.more = false
}

// process parses the first proc of an OS process.
func (p *parser) process(out *Subject) {
	p.proc(out)
	if out.Proc.Index > 0 {
		p.fail("process", out.Proc.String(), "rank-gen without an index")
	}
}

func (p *parser) proc(out *Subject) {
	out.Mesh = p.mesh()
	p.rank(out, p.next())
}

func (p *parser) event(out *Subject) {
	out.Event = p.label("event kind")
	mesh := p.next()
	if isLabelUID(mesh) {
		out.Mesh = MeshID{mesh}
	} else if mesh != "_" {
		p.fail("mesh ID", mesh, wantUID+"; or _")
	}
	if rank := p.next(); rank != "_" {
		p.rank(out, rank)
	}
	if actor := p.next(); actor != "_" {
		out.Actor = actor
		p.check(isName, "actor name", actor, wantName+"; or _")
	}
	if mesh == "_" && (out.HasRank || out.Actor != "") {
		p.fail("mesh ID", mesh, "a mesh, since the event is about a rank or an actor")
	}
}

func (p *parser) rank(out *Subject, token string) {
	id, ok := parseRank(token, "-")
	if !ok {
		p.fail("rank", token, "rank-gen or rank-gen-index, numbers, as 12-0")
	}
	id.Mesh = out.Mesh
	out.Proc, out.HasRank = id, true
}

func (p *parser) mesh() MeshID             { return MeshID{p.token(isLabelUID, "mesh ID", wantUID)} }
func (p *parser) name(what string) string  { return p.token(isName, what, wantName) }
func (p *parser) label(what string) string { return p.token(isLabel, what, wantLabel) }
func (p *parser) port() string             { return p.token(isPort, "port", wantPort) }

func (p *parser) token(is func(string) bool, what, want string) string {
	t := p.next()
	p.check(is, what, t, want)
	return t
}

func (p *parser) check(is func(string) bool, what, t, want string) {
	if !is(t) {
		p.fail(what, t, want)
	}
}

// next takes the next token; a missing one is an error about the shape.
func (p *parser) next() (t string) {
	if !p.more {
		p.failShape()
		return ""
	}
	t, p.rest, p.more = strings.Cut(p.rest, ".")
	return t
}

// failShape reports too few or too many tokens.
func (p *parser) failShape() { p.fail("tokens", p.all, p.kind.Pattern()) }

// fail keeps the first error.
func (p *parser) fail(what, input, want string) {
	if p.err == nil {
		p.err = &Error{What: what, Input: input, Want: want}
	}
}
