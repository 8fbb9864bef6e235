package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
)

// ownServer is a hostd's own server, reached with its token.
type ownServer struct {
	options bus.Options
	space   subjects.Space
}

// own returns hostd's own server; nil where a directory has the keys.
func (d *authDir) own(ctx context.Context) (*ownServer, error) {
	if d.dir != "" {
		return nil, nil
	}
	dir, err := d.path()
	if err != nil {
		return nil, err
	}
	_, err = auth.Read(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the command reports the error
	}
	o, err := d.Conn.Options(d.Getenv)
	if err != nil {
		return nil, err
	}
	space, err := subjects.NewSpace("", d.Conn.Namespace)
	if err != nil {
		return nil, err
	}
	s := &ownServer{o, space}
	return s, d.OrInterrupted(ctx, s.check(ctx, dir))
}

// check requires the token of a server that takes keys.
func (s *ownServer) check(ctx context.Context, dir string) error {
	if _, err := ticket.ParseKey(s.options.Token); err == nil || ticket.Is(s.options.Token) {
		return errors.New("a key makes no other keys: want the token of hostd's own server")
	}
	b, err := bus.Open(ctx, s.options)
	if err != nil {
		return fmt.Errorf("no keys in %s (castnet auth init), and no hostd's own server: %w", dir, err)
	}
	name := b.Control().ServerName()
	err = b.Close(ctx)
	if s.options.Token == "" || !ticket.TakenBy(name) {
		return fmt.Errorf("no keys in %s (castnet auth init), and %s is no hostd's own server with a token",
			dir, s.options.URL)
	}
	return err
}

// mint makes a key of a person.
func (s *ownServer) mint(role subjects.Role, name string, life time.Duration) (ticket.Key, error) {
	if !role.IsOneOf(subjects.UserRoles()...) {
		return ticket.Key{}, cli.Usagef("auth mint --role %s: want program, operator, observer or caster; "+
			"for hosts, castnet auth host add", role)
	}
	if life <= 0 {
		return ticket.Key{}, cli.Usagef("auth mint --for %s: want more than 0", life)
	}
	return s.issue(role, name, life)
}

// issue makes a key of a principal; no life: it does not expire.
func (s *ownServer) issue(role subjects.Role, name string, life time.Duration) (ticket.Key, error) {
	if err := subjects.CheckLabel(role.String(), name); err != nil {
		return ticket.Key{}, cli.Usagef("%w", err)
	}
	var expires time.Time
	if life > 0 {
		expires = time.Now().Add(life)
	}
	return ticket.NewMaster(s.options.Token).Issue(s.space, role.Principal(name), expires), nil
}

// addOwnHost makes the key of a host, which does not expire.
func (d *authDir) addOwnHost(own *ownServer, name string, system bool, out string) error {
	role := subjects.Host
	if system {
		role = subjects.System
	}
	key, err := own.issue(role, name, 0)
	if err != nil {
		return err
	}
	return d.writeKey(key, out)
}

// writeKey prints a key, or writes it to a file, and says what it is.
func (d *authDir) writeKey(key ticket.Key, out string) error {
	until := "it does not expire"
	if !key.Expires().IsZero() {
		until = "until " + key.Expires().Format(time.RFC3339)
	}
	d.Notef("key %s of %s, %s: use it with --token-file", key.Serial(), key.Principal(), until)
	return d.writeSecret(out, []byte(key.Text()+"\n"))
}

// revoke ends a key, named by its file or its serial.
func (s *ownServer) revoke(ctx context.Context, named string) error {
	serial := named
	if text, err := os.ReadFile(named); err == nil {
		key, err := ticket.ParseKey(strings.TrimSpace(string(text)))
		if err != nil {
			return fmt.Errorf("cannot read a key from %s: %w", named, err)
		}
		serial = key.Serial()
	} else if strings.ContainsAny(named, "./-") {
		return cli.Usagef("auth revoke %q: want the file of a key, or its serial: %w", named, err)
	}
	b, err := bus.Open(ctx, s.options)
	if err != nil {
		return err
	}
	answer, err := b.Control().Request(ctx, bus.Msg{
		Subject: s.space.Heartbeat(agent.KindRevoke, subjects.Anon()), Data: []byte(serial),
	}, actor.IsAnswer)
	if err == nil && len(answer.Data) > 0 {
		err = errors.New(string(answer.Data))
	}
	return errors.Join(err, b.Close(ctx))
}
