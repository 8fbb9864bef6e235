package testproc

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// Options are those of a proc. The zero ID is that of a new client. Without Bus and Lead the proc
// opens connections of its own.
type Options struct {
	actor.Options
	Member *cast.Member // its place in a mesh; nil: none
}

// Start starts a proc with the router of its casts. Both close with the test; end closes them
// earlier.
func Start(t testing.TB, srv *embed.Server, o Options, defs ...actor.Def) (p *actor.Proc, end func()) {
	t.Helper()
	if !o.ID.IsValid() {
		o.ID = subjects.ProcID{Mesh: MeshID(t, "client")}
	}
	if o.Bus == nil && o.Lead == nil {
		o.Bus = bustest.Open(t, srv, func(b *bus.Options) { b.Log = o.Log })
	}
	o.Registry = Registry(t, defs...)
	p, err := actor.NewProc(t.Context(), o.Options)
	require.NoError(t, err)
	router, err := cast.Start(p, o.Member)
	require.NoError(t, err)
	return p, Close(t, p, router)
}

// Close closes a proc and its router when the test ends; end closes them earlier.
func Close(t testing.TB, p *actor.Proc, router *cast.Router) (end func()) {
	return testkit.Close(t, p.Close, func(context.Context) error {
		router.Close()
		return nil
	})
}

// Registry returns the registry of types.
func Registry(t testing.TB, defs ...actor.Def) actor.Registry {
	t.Helper()
	r, err := actor.NewRegistry(defs...)
	require.NoError(t, err)
	return r
}

// MeshID returns a new ID of a mesh.
func MeshID(t testing.TB, label string) subjects.MeshID {
	t.Helper()
	id, err := subjects.NewMeshID(label)
	require.NoError(t, err)
	return id
}

// HostID returns a new ID of a host.
func HostID(t testing.TB, label string) subjects.HostID {
	t.Helper()
	id, err := subjects.NewHostID(label)
	require.NoError(t, err)
	return id
}

// Hold keeps a proc from taking data until release is called, or the test ends. A proc that sends
// to it is via.
func Hold(t testing.TB, p, via *actor.Proc) (release func()) {
	t.Helper()
	gate, entered := make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) })
	port, closePort := actor.OpenPortFunc(p, func(actor.None) error {
		enter()
		<-gate // on the data pump
		return nil
	}, func(error) {})
	release = sync.OnceFunc(func() {
		close(gate)
		closePort()
	})
	t.Cleanup(release)
	require.NoError(t, port.Via(via).Send(t.Context(), actor.None{}))
	<-entered
	return release
}
