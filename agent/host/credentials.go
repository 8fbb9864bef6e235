package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/subjects"
)

const (
	credsDirName = "creds"
	credsSuffix  = ".creds"
)

// credentials are the files with the credentials of procs (HOST-20). A proc reads its file at each
// connect, also while no host renews it. A nil credentials writes none.
type credentials struct {
	dir  string
	mint func() ([]byte, error)
	life time.Duration
	user *launch.User // who reads the files; nil: the host's user
}

// openCredentials makes the directory below base, and removes files of procs that are not adopted.
func openCredentials(o Options, base string, adopted []adoptedProc) (*credentials, error) {
	if o.MintCreds == nil {
		return nil, nil
	}
	f := &credentials{
		dir: filepath.Join(base, credsDirName), mint: o.MintCreds, life: o.CredsLife, user: o.procUser,
	}
	fail := func(err error) (*credentials, error) {
		return nil, fmt.Errorf("cannot keep credentials of procs: %w", err)
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fail(err)
	}
	if f.user != nil {
		for _, dir := range []string{base, f.dir} { // to be entered, not to be listed
			if err := os.Chmod(dir, 0o711); err != nil {
				return fail(err)
			}
		}
	}
	kept := map[string]bool{}
	for _, a := range adopted {
		kept[filepath.Base(f.path(a.procID()))] = true
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fail(err)
	}
	for _, e := range entries {
		if name := e.Name(); !kept[name] && strings.Contains(name, credsSuffix) {
			if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
				return fail(err)
			}
		}
	}
	return f, nil
}

// path is the file of a proc.
func (f *credentials) path(id subjects.ProcID) string {
	return filepath.Join(f.dir, id.Process().String()+credsSuffix)
}

// apply makes a proc use its file.
func (f *credentials) apply(s agent.BusSettings, id subjects.ProcID) agent.BusSettings {
	if f != nil {
		s.Creds = f.path(id)
	}
	return s
}

// write mints credentials of a proc, and replaces its file.
func (f *credentials) write(id subjects.ProcID) error {
	if f == nil {
		return nil
	}
	creds, err := f.mint()
	if err != nil {
		return fmt.Errorf("cannot mint credentials of proc %s: %w", id, err)
	}
	path := f.path(id)
	next := path + ".new"
	err = os.WriteFile(next, creds, 0o600)
	if err == nil {
		err = f.user.Own(next)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // absent, or as unusable as the directory
		return fmt.Errorf("cannot write credentials of proc %s: %w", id, err)
	}
	return nil
}

// remove removes the file of a proc.
func (f *credentials) remove(id subjects.ProcID) error {
	if f == nil {
		return nil
	}
	err := os.Remove(f.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// close removes the directory, unless kept procs have files there.
func (f *credentials) close() error {
	if f == nil {
		return nil
	}
	entries, err := os.ReadDir(f.dir)
	if err == nil && len(entries) == 0 {
		err = os.Remove(f.dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// renewalDelay draws when to renew credentials: before half of their life, and not all at once.
func (f *credentials) renewalDelay() time.Duration {
	return time.Duration((0.375 + 0.125*rand.Float64()) * float64(f.life))
}

// credsRetries is how often a failing renewal is tried in the time of one life.
const credsRetries = 16

// adoptCredentials renews the credentials of an adopted proc at once: no host did meanwhile.
func (a *hostAgent) adoptCredentials(ctx *actor.Context, c *child) {
	if a.credentials == nil {
		return
	}
	next := a.credentials.renewalDelay()
	if err := a.credentials.write(c.id); err != nil {
		log := ctx.Log()
		log.Warn().Err(err).Msg("trying again")
		next = a.credentials.life / credsRetries
	}
	a.keepCredentials(ctx, c, next)
}

// keepCredentials renews the credentials of a proc until its end, after the delay.
func (a *hostAgent) keepCredentials(ctx *actor.Context, c *child, after time.Duration) {
	f := a.credentials
	ctx.After(after, func(ctx *actor.Context) {
		if c.state.Terminal() {
			return
		}
		ctx.Go(func(context.Context) func(*actor.Context) {
			err := f.write(c.id)
			return func(ctx *actor.Context) {
				log := ctx.Log()
				next := f.renewalDelay()
				if err != nil {
					next = f.life / credsRetries
					log.Warn().Err(err).Msg("trying again")
				}
				if c.state.Terminal() { // meanwhile
					a.endCredentials(ctx, c)
					return
				}
				a.keepCredentials(ctx, c, next)
			}
		})
	})
}

// endCredentials removes the credentials of an ended proc.
func (a *hostAgent) endCredentials(ctx *actor.Context, c *child) {
	if err := a.credentials.remove(c.id); err != nil {
		log := ctx.Log()
		log.Warn().Err(err).Stringer("of", c.id).Msg("the credentials of an ended proc remain until they expire")
	}
}
