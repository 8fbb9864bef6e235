package heldmesh

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/config"
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
	spares        int                // of the hosts
	limits        mesh.Limits        // of each proc
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
	spares                 int
	memory                 config.Size
	limits                 mesh.Limits
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

func readSize(text string) (config.Size, error) {
	size, ok := config.ParseSize(text)
	if !ok || size <= 0 {
		return 0, errors.New("want a size such as 512MiB")
	}
	return size, nil
}

func readCores(text string) (float64, error) {
	cores, err := strconv.ParseFloat(text, 64)
	if err != nil || !(cores > 0) {
		return 0, errors.New("want a number of cores, such as 1.5")
	}
	return cores, nil
}
