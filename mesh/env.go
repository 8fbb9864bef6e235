package mesh

import (
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/wire"
)

// Env is a typed variable of the environment. A program sets it for all its meshes (Options.Env) or
// for one (Command.Env):
//
//	var runOf = mesh.NewEnv[Run]("RUN")
//
//	env, err := runOf.Append(nil, run)
//	conn, err := mesh.Connect(ctx, mesh.Options{Env: env})
//
// All actors of a mesh see it. The meshes that they spawn with their own program inherit it. Other
// programs read the variable as JSON.
type Env[T any] struct{ name string }

// NewEnv returns the variable of a name, such as RUN.
func NewEnv[T any](name string) Env[T] { return Env[T]{name} }

// Append sets the variable in an environment. Of several values the last one counts.
func (e Env[T]) Append(env []string, v T) ([]string, error) {
	text, err := wire.JSON.Encode(v)
	if err != nil {
		return env, fmt.Errorf("cannot encode %s: %w", e.name, err)
	}
	return append(env, e.name+"="+string(text)), nil
}

// Get returns the value for the actor of ctx; false if it has none.
func (e Env[T]) Get(ctx *actor.Context) (v T, ok bool, err error) {
	for _, entry := range slices.Backward(agent.CommandEnvOf(ctx.Proc())) {
		text, found := strings.CutPrefix(entry, e.name+"=")
		if !found {
			continue
		}
		err = wire.JSON.Decode([]byte(text), &v)
		if err != nil {
			err = fmt.Errorf("cannot decode %s: %w", e.name, err)
		}
		return v, err == nil, err
	}
	return v, false, nil
}
