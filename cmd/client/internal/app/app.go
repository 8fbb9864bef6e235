package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// App is one run of the command line.
type App struct {
	*output.Printer
	Conn       cli.Connection
	LogLevel   string
	ConfigFile string
	Getenv     func(string) string
	Tracer     actor.Tracer // makes spans of the command's messages; nil: none
}

// WithNetTimeout connects, runs do within --timeout, and disconnects.
func (a *App) WithNetTimeout(ctx context.Context, do func(ctx context.Context, conn *mesh.Net) error) error {
	return a.WithNet(ctx, func(conn *mesh.Net) error {
		ctx, cancel := context.WithTimeout(ctx, a.Conn.Timeout)
		defer cancel()
		return do(ctx, conn)
	})
}

// goodbyeTimeout bounds the end of a command that owns nothing, if the bus is away.
const goodbyeTimeout = 5 * time.Second

// WithNet connects, runs do with its own timeouts, and disconnects.
func (a *App) WithNet(ctx context.Context, do func(conn *mesh.Net) error) error {
	return a.withNet(ctx, goodbyeTimeout, do)
}

// WithOwnMesh is WithNet for a command that may own a mesh, which ends with it.
func (a *App) WithOwnMesh(ctx context.Context, do func(conn *mesh.Net) error) error {
	return a.withNet(ctx, actor.DefaultDeadline, do)
}

func (a *App) withNet(ctx context.Context, goodbye time.Duration, do func(conn *mesh.Net) error) error {
	o, err := a.MeshOptions()
	if err != nil {
		return err
	}
	conn, err := mesh.Connect(ctx, o)
	if err != nil {
		return a.OrInterrupted(ctx, a.SuggestHostd(err))
	}
	return a.RunAndClose(ctx, conn, goodbye, do)
}

// SuggestHostd adds advice to the error of a missing bus.
func (a *App) SuggestHostd(err error) error {
	if a.IsBusMissing(err) {
		return fmt.Errorf("%w: start a hostd, or name a server with --server", err)
	}
	return err
}

// IsBusMissing reports whether no bus was named and the default URL has no server, or a foreign
// one.
func (a *App) IsBusMissing(err error) bool {
	e, ok := errors.AsType[*bus.ConnectError](err)
	return ok && !a.Conn.IsConfigured(a.Getenv) && (e.Reason == bus.NoServer || e.Reason == bus.WrongCredentials)
}

// RunAndClose runs do and closes the connection, interrupted or not. An error of do hides that of a
// goodbye without answer.
func (a *App) RunAndClose(
	ctx context.Context, conn *mesh.Net, goodbye time.Duration, do func(conn *mesh.Net) error,
) error {
	err := do(conn)
	if broken := conn.Bus().Err(); broken != nil {
		err = cli.WithCode(cli.ExitConnection, fmt.Errorf("the bus broke: %w", broken))
	}
	err = a.OrInterrupted(ctx, err)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	closed := conn.Close(closing)
	if err != nil && closing.Err() != nil {
		return err
	}
	return errors.Join(err, closed)
}

// OrInterrupted maps all errors of an interrupt to one.
func (a *App) OrInterrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return cli.WithCode(cli.ExitInterrupted, errors.New("interrupted"))
	}
	return err
}

func (a *App) MeshOptions() (mesh.Options, error) {
	o, err := a.Conn.Options(a.Getenv)
	if err != nil {
		return mesh.Options{}, err
	}
	level, err := zerolog.ParseLevel(a.LogLevel)
	if err != nil || a.LogLevel == "" {
		return mesh.Options{}, cli.Usagef("--log-level %q: want debug, info, warn, error or disabled", a.LogLevel)
	}
	w := zerolog.ConsoleWriter{Out: a.Stderr, NoColor: !a.UseColor || !a.ErrTTY, TimeFormat: time.TimeOnly}
	log := zerolog.New(w).Level(level).With().Timestamp().Logger()
	limits, err := a.LoadConfig()
	if err != nil {
		return mesh.Options{}, err
	}
	return mesh.Options{
		Principal: mesh.UserPrincipal(subjects.Operator),
		Bus:       &o, Namespace: a.Conn.Namespace, Log: log, Config: limits, Tracer: a.Tracer,
		OnFailure: func(actor.Event) {}, // logged; the command reports its meaning
	}, nil
}

// LoadConfig reads the limits of this program from its file and environment.
func (a *App) LoadConfig() (*config.Config, error) {
	c := &config.Config{}
	if a.ConfigFile != "" {
		said, err := cli.ReadConfigFile(a.ConfigFile)
		if err != nil {
			return nil, err
		}
		if err := c.LoadFile(said); err != nil {
			return nil, err
		}
	}
	return c, c.LoadEnv(a.Getenv)
}
