package mesh

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Handles as text. A decoded handle belongs to no Net; Via binds it. Ownership does not travel: any
// reader may query, call, cast and watch, but only the owner stops.

// RefError reports that a text is no reference to a mesh.
type RefError struct {
	What, Text string // the kind of handle, and the text
	Err        error
}

func (e *RefError) Error() string { return fmt.Sprintf("%s %q: %v", e.What, e.Text, e.Err) }

func (e *RefError) Unwrap() error { return e.Err }

// CardinalityError reports that a mesh has a different number of hosts than of ranks.
type CardinalityError struct{ Want, Got int }

func (e *CardinalityError) Error() string {
	return fmt.Sprintf("want %d ranks, got %d hosts", e.Want, e.Got)
}

// noHost stands for the missing host of a world's rank.
const noHost = "-"

// hostsText lists hosts.
func hostsText(hosts []subjects.HostID) string {
	texts := make([]string, len(hosts))
	for i, h := range hosts {
		texts[i] = h.String()
		if !h.IsValid() {
			texts[i] = noHost
		}
	}
	return strings.Join(texts, ",")
}

// parseHosts decodes a list from hostsText, with gaps if allowed.
func parseHosts(text string, gaps bool) (hosts []subjects.HostID, err error) {
	for i, t := range strings.Split(text, ",") {
		if gaps && t == noHost {
			hosts = append(hosts, subjects.HostID{})
			continue
		}
		id, err := subjects.ParseHostID(strings.TrimSpace(t))
		if err != nil {
			return nil, fmt.Errorf("host %d: %w", i, err)
		}
		hosts = append(hosts, id)
	}
	return hosts, nil
}

// String is the mesh as text: name:host,host@region.
func (h HostMesh) String() string { return h.name + ":" + hostsText(h.hosts) + "@" + h.region.String() }

// MarshalText returns String, or the error of a bad handle.
func (h HostMesh) MarshalText() ([]byte, error) {
	if h.err != nil {
		return nil, h.err
	}
	if err := h.validate(); err != nil {
		return nil, err
	}
	return []byte(h.String()), nil
}

// UnmarshalText decodes the result of MarshalText.
func (h *HostMesh) UnmarshalText(text []byte) error {
	got, err := parseHostMesh(string(text))
	if err != nil {
		return &RefError{"host mesh", string(text), err}
	}
	*h = got
	return nil
}

func parseHostMesh(text string) (h HostMesh, err error) {
	name, rest, ok := strings.Cut(text, ":")
	if !ok {
		return h, fmt.Errorf("no name: want name:host,host@region")
	}
	if err := subjects.CheckLabel("host mesh name", name); err != nil {
		return h, err
	}
	list, region, ok := strings.Cut(rest, "@")
	if !ok {
		return h, fmt.Errorf("no region: want name:host,host@region")
	}
	h.name = name
	h.hosts, err = parseHosts(list, false)
	if err != nil {
		return h, err
	}
	h.region, err = shape.ParseRegion(region)
	if err != nil {
		return h, err
	}
	return h, h.validate()
}

// Via binds a decoded handle to a Net.
func (h HostMesh) Via(n *Net) HostMesh {
	h.net = n
	return h
}

// String is the region as text: mesh:host,host@owner@procs per process@extent@region. The number of
// Grows and Shrinks, if any, follows the procs per process: 1/2. For a world, world/procs per host
// replaces both.
func (p ProcMesh) String() string {
	p = current(p)
	how := strconv.Itoa(p.desc.PerProcess)
	if p.desc.Revision > 0 {
		how += "/" + strconv.Itoa(p.desc.Revision)
	}
	if p.desc.World != nil {
		how = worldPrefix + strconv.Itoa(p.desc.PerHost)
	}
	return fmt.Sprintf("%s:%s@%s@%s@%s@%s",
		p.desc.ID, hostsText(p.desc.Hosts), p.desc.Owner, how, p.desc.Extent.Region(), p.region)
}

const worldPrefix = "world/"

// MarshalText returns String, or the error of a bad handle.
func (p ProcMesh) MarshalText() ([]byte, error) {
	p = current(p)
	if p.err != nil {
		return nil, p.err
	}
	if err := p.desc.Check(); err != nil {
		return nil, err
	}
	return []byte(p.String()), nil
}

// UnmarshalText decodes the result of MarshalText. It lacks the procs' command, which may hold
// secrets.
func (p *ProcMesh) UnmarshalText(text []byte) error {
	got, err := parseProcMesh(string(text))
	if err != nil {
		return &RefError{"proc mesh", string(text), err}
	}
	*p = got
	return nil
}

func parseProcMesh(text string) (p ProcMesh, err error) {
	id, rest, ok := strings.Cut(text, ":")
	if !ok {
		return p, fmt.Errorf("no name: want mesh:hosts@owner@perprocess@extent@region")
	}
	p.desc.ID, err = subjects.ParseMeshID(id)
	if err != nil {
		return p, err
	}
	var parts [4]string // hosts, owner, per process, extent; the rest is the region
	for i, what := range []string{"owner", "number of procs per process", "extent", "region"} {
		parts[i], rest, ok = strings.Cut(rest, "@")
		if !ok {
			return p, fmt.Errorf("no %s: want mesh:hosts@owner@perprocess@extent@region", what)
		}
	}
	perHost, isWorld := strings.CutPrefix(parts[2], worldPrefix)
	p.desc.Hosts, err = parseHosts(parts[0], isWorld)
	if err != nil {
		return p, err
	}
	p.desc.Owner, err = subjects.ParseActorID(parts[1])
	if err != nil {
		return p, err
	}
	if count, revision, ok := strings.Cut(perHost, "/"); ok && !isWorld {
		perHost = count
		p.desc.Revision, err = strconv.Atoi(revision)
		if err != nil || p.desc.Revision < 1 || strconv.Itoa(p.desc.Revision) != revision {
			return p, fmt.Errorf("revision %q: want a number of 1 or more", revision)
		}
	}
	per, err := strconv.Atoi(perHost)
	if err != nil || strconv.Itoa(per) != perHost {
		return p, fmt.Errorf("procs per process %q: want a number, or %sN of a world with N on each host",
			parts[2], worldPrefix)
	}
	whole, err := shape.ParseRegion(parts[3])
	if err != nil {
		return p, err
	}
	p.desc.Extent = whole.Extent()
	if !p.desc.Extent.Region().Equal(whole) {
		return p, fmt.Errorf("extent %q: want a whole extent, in order", parts[3])
	}
	switch n := p.desc.Extent.NumRanks(); {
	case isWorld:
		p.desc.PerHost = per
		p.desc.World = &agent.WorldShare{World: p.desc.ID.Label(), Count: n}
	case n%len(p.desc.Hosts) != 0:
		return p, &CardinalityError{Want: n, Got: len(p.desc.Hosts)}
	default:
		p.desc.PerHost = n / len(p.desc.Hosts)
		p.desc.PerProcess = per
	}
	p.region, err = shape.ParseRegion(rest)
	if err != nil {
		return p, err
	}
	if err := p.desc.Check(); err != nil {
		return p, err
	}
	return p, p.region.SubsetOf(whole)
}

// Via binds a decoded handle to a Net.
func (p ProcMesh) Via(n *Net) ProcMesh {
	p.net = n
	return p
}

// Equal reports whether two handles have the same region of the same mesh.
func (p ProcMesh) Equal(o ProcMesh) bool {
	p = current(p)
	o = current(o)
	return p.desc.ID == o.desc.ID && p.region.Equal(o.region) &&
		p.desc.Extent.Equal(o.desc.Extent) && slices.Equal(p.desc.Hosts, o.desc.Hosts)
}

// String is the region as text: name|owner|procs, where procs is the text of the procs' region. The
// owner is empty if it is unknown to the handle, and - if there is none.
func (m actorMesh) String() string {
	owner := ""
	if m.owner.IsValid() {
		owner = m.owner.String()
	} else if m.uncontrolled {
		owner = "-"
	}
	return m.name + "|" + owner + "|" + m.procs.String()
}

// MarshalText returns String, or the error of a bad handle.
func (m actorMesh) MarshalText() ([]byte, error) {
	if err := subjects.CheckName("actor mesh", m.name); err != nil {
		return nil, err
	}
	if _, err := m.procs.MarshalText(); err != nil {
		return nil, err
	}
	return []byte(m.String()), nil
}

// UnmarshalText decodes the result of MarshalText. The reader chooses the Go type, as with any ref.
func (m *actorMesh) UnmarshalText(text []byte) error {
	parts := strings.SplitN(string(text), "|", 3)
	fail := func(err error) error { return &RefError{"actor mesh", string(text), err} }
	if len(parts) != 3 {
		return fail(fmt.Errorf("want name|owner|procs"))
	}
	got := actorMesh{name: parts[0]}
	if err := subjects.CheckName("actor mesh", got.name); err != nil {
		return fail(err)
	}
	var err error
	got.uncontrolled = parts[1] == "-"
	if !got.uncontrolled && parts[1] != "" {
		got.owner, err = subjects.ParseActorID(parts[1])
		if err != nil {
			return fail(err)
		}
	}
	got.procs, err = parseProcMesh(parts[2])
	if err != nil {
		return fail(err)
	}
	*m = got
	return nil
}

// Via binds a decoded handle to a Net.
func (m ActorMesh[A]) Via(n *Net) ActorMesh[A] {
	m.procs = m.procs.Via(n)
	return m
}

// Equal reports whether two handles have the same actors.
func (m ActorMesh[A]) Equal(o ActorMesh[A]) bool { return m.name == o.name && m.procs.Equal(o.procs) }

// HostError is the error of a request to a host.
type HostError struct {
	Host subjects.HostID
	Err  error
}

// HostsError lists the hosts of a mesh that did not carry out a request.
type HostsError struct {
	Mesh   string
	Hosts  int         // of the mesh
	Failed []HostError // in rank order
}

func (e *HostsError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "hosts %s: %d of %d failed", e.Mesh, len(e.Failed), e.Hosts)
	for i, f := range e.Failed {
		if i == maxListed {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Failed)-maxListed)
			break
		}
		fmt.Fprintf(&b, "\n  %s: %v", f.Host, f.Err)
	}
	return b.String()
}

// Unwrap returns each host's error.
func (e *HostsError) Unwrap() (errs []error) {
	for _, f := range e.Failed {
		errs = append(errs, f.Err)
	}
	return errs
}
