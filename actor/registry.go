package actor

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Def is an actor type bound to code, for the registry of a proc.
type Def struct {
	name          string
	params        decodeFunc
	construct     func(ctx *Context, params any) (any, error)
	methods       map[string]*method
	resumeOnError bool // an unawaited error is logged
	comparesRoles bool // see Permit
	internal      bool // lists of types omit it
	err           error
}

// Name is the name of the actor type.
func (d Def) Name() string { return d.name }

// ResumeOnError returns d for actors that others depend on, such as agents. The actor logs an
// unawaited error of a handler and goes on. A panic still fails it.
func (d Def) ResumeOnError() Def {
	d.resumeOnError = true
	return d
}

func (d *Def) add(m *method, err error) {
	switch {
	case d.err != nil:
	case err == nil && m == nil:
		d.err = fmt.Errorf("actor type %s: want methods made by Endpoint.Handle, got the zero Method", d.name)
	case err != nil:
		d.err = fmt.Errorf("actor type %s: %w", d.name, err)
	case d.methods[m.name] != nil:
		d.err = fmt.Errorf("actor type %s: endpoint %q is bound twice", d.name, m.name)
	default:
		d.methods[m.name] = m
	}
}

// Registry holds the actor types a proc can run. It is a value: there is no global one.
type Registry struct{ defs map[string]*Def }

// NewRegistry collects definitions. It returns an error for the first malformed or duplicate one.
func NewRegistry(defs ...Def) (Registry, error) {
	r := Registry{defs: map[string]*Def{}}
	for _, d := range defs {
		if d.err == nil && d.construct == nil {
			d.err = errors.New("want a Def made by Type.Define, got the zero Def")
		}
		if d.err != nil {
			return Registry{}, d.err
		}
		if _, dup := r.defs[d.name]; dup {
			return Registry{}, fmt.Errorf("actor type %q is defined twice", d.name)
		}
		r.defs[d.name] = &d
	}
	return r, nil
}

// WithInternal returns a registry with d added. Types and errors do not list d.
func (r Registry) WithInternal(d Def) (Registry, error) {
	d.internal = true
	all := []Def{d}
	for _, known := range r.defs {
		all = append(all, *known)
	}
	return NewRegistry(all...)
}

// Types lists the names of the actor types, sorted, without internal ones.
func (r Registry) Types() []string {
	all := slices.Sorted(maps.Keys(r.defs))
	return slices.DeleteFunc(all, func(name string) bool { return r.defs[name].internal })
}

// Endpoints lists the endpoints of a type as `name(in) out`, sorted.
func (r Registry) Endpoints(typeName string) []string {
	var out []string
	d := r.defs[typeName]
	if d == nil {
		return nil
	}
	for _, m := range d.methods {
		out = append(out, fmt.Sprintf("%s(%s) %s", m.name, m.in, m.out))
	}
	slices.Sort(out)
	return out
}

// EndpointType describes an endpoint of a type, without an actor.
type EndpointType struct {
	Name     string
	In, Out  reflect.Type
	Reducers []string // those it declares, sorted
}

// Describe lists the endpoints of a type, sorted by name.
func (r Registry) Describe(typeName string) (out []EndpointType) {
	d := r.defs[typeName]
	if d == nil {
		return nil
	}
	for _, m := range d.methods {
		out = append(out, EndpointType{m.name, m.types[0], m.types[1], slices.Sorted(maps.Keys(m.folds))})
	}
	slices.SortFunc(out, func(a, b EndpointType) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (r Registry) find(typeName string) (*Def, error) {
	d, ok := r.defs[typeName]
	if !ok {
		return nil, errorf(CodeInvalid, "", "", "actor type %q is not known to this proc; it knows %s",
			typeName, strings.Join(r.Types(), ", "))
	}
	return d, nil
}

// endpointNames lists the endpoints of an actor type, for errors.
func (d Def) endpointNames() string {
	return strings.Join(slices.Sorted(maps.Keys(d.methods)), ", ")
}
