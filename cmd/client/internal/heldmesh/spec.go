package heldmesh

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// Spec is the validated input of `up`.
type Spec struct {
	name          string
	perHost       shape.Extent
	command       mesh.Command
	Actor         string // Actor type; "" = procs only
	params        any
	lease         time.Duration
	noHostd       bool
	Hosts         target.HostSelector
	Detach        bool
	RestartPolicy mesh.RestartPolicy // of the procs, and of owned actors
	keep          bool
}

// Flags are the flags of upSpec.
type Flags struct {
	PerHost                shape.Extent
	actor, params, command string
	args, env              []string
	keep                   bool
	lease                  time.Duration
	NoHostd                bool
	restartPolicy          mesh.RestartPolicy
}

// CheckPerHost refuses more procs than a host permits.
func CheckPerHost(e shape.Extent, err error) (shape.Extent, error) {
	if n := e.NumRanks(); err == nil && n > agent.MaxPerHost {
		return e, fmt.Errorf("%d procs on each host: want at most %d", n, agent.MaxPerHost)
	}
	return e, err
}

// restarts lists the policies without parameters.
func restarts() []string {
	return []string{mesh.Propagate.String(), mesh.Temporary.String(), mesh.Transient.String()}
}

func readRestart(text string) (r actor.Restart, err error) {
	if !slices.Contains(restarts(), text) {
		return r, fmt.Errorf("want %s", strings.Join(restarts(), ", "))
	}
	return r, r.UnmarshalText([]byte(text))
}
