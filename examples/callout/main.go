package main

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

const (
	requestSubject = "$SYS.REQ.USER.AUTH"
	queue          = "callout"
	account        = "CASTNET"
	// life is the time until a connection has to ask again.
	life = time.Hour
	// maxUsers bounds the file of users, in bytes.
	maxUsers = 1 << 20
)

// users are the passwords of principals.
type users map[subjects.Principal]string

// readUsers reads lines of a principal and a password.
func readUsers(from io.Reader) (users, error) {
	all := users{}
	lines := bufio.NewScanner(io.LimitReader(from, maxUsers))
	for n := 1; lines.Scan(); n++ {
		name, password, found := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if name == "" {
			continue
		}
		p, err := subjects.ParsePrincipal(name)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if !found || password == "" {
			return nil, fmt.Errorf("line %d: want a principal and a password", n)
		}
		all[p] = password
	}
	return all, lines.Err()
}

// authenticate returns the principal of a client.
func (u users) authenticate(name, password string) (subjects.Principal, error) {
	p, err := subjects.ParsePrincipal(name)
	if err != nil {
		return p, err
	}
	want, known := u[p]
	if !known || subtle.ConstantTimeCompare([]byte(want), []byte(password)) != 1 {
		return p, errors.New("unknown user or wrong password")
	}
	return p, nil
}

// service answers the server's requests.
type service struct {
	issuer nkeys.KeyPair // of the configuration
	users  users
	space  subjects.Space
}

// answer decides about one client.
func (s *service) answer(request []byte) (string, error) {
	asked, err := jwt.DecodeAuthorizationRequestClaims(string(request))
	if err != nil {
		return "", err
	}
	response := jwt.NewAuthorizationResponseClaims(asked.UserNkey)
	response.Audience = asked.Server.ID
	p, err := s.users.authenticate(asked.ConnectOptions.Username, asked.ConnectOptions.Password)
	if err == nil {
		response.Jwt, err = s.user(asked.UserNkey, p)
	}
	if err != nil {
		response.Error = err.Error()
	}
	return response.Encode(s.issuer)
}

// user is a user with the permissions of a principal.
func (s *service) user(key string, p subjects.Principal) (string, error) {
	grants := s.space.Grants(subjects.User{Principal: p})
	claims := jwt.NewUserClaims(key)
	claims.Name = p.String()
	claims.Audience = account
	claims.Expires = time.Now().Add(life).Unix()
	claims.Pub = jwt.Permission{Allow: grants.Publish, Deny: grants.DenyPublish}
	claims.Sub = jwt.Permission{Allow: grants.Subscribe, Deny: grants.DenySubscribe}
	return claims.Encode(s.issuer)
}

// serve answers requests on a connection, with other instances of the service.
func (s *service) serve(c *bus.Conn) error {
	_, err := c.SubscribeGroup(requestSubject, queue, func(m bus.Msg) {
		text, err := s.answer(m.Data)
		if err == nil {
			err = c.Publish(m.Reply, []byte(text))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "cannot answer a request:", err)
		}
	})
	return err
}

func run(ctx context.Context, path, seed string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	s := &service{}
	s.users, err = readUsers(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.issuer, err = nkeys.FromSeed([]byte(seed))
	if err != nil {
		return fmt.Errorf("CALLOUT_SEED: %w", err)
	}
	b, err := bus.Open(ctx, bus.FromEnv(os.Getenv))
	if err != nil {
		return err
	}
	err = s.serve(b.Data())
	if err == nil {
		fmt.Println("Listening on", requestSubject)
		select {
		case <-ctx.Done():
		case <-b.Done():
			err = b.Err()
		}
	}
	return errors.Join(err, b.Close(context.WithoutCancel(ctx)))
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: callout USERS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Getenv("CALLOUT_SEED")); err != nil {
		fmt.Fprintln(os.Stderr, "callout:", err)
		stop()
		os.Exit(1)
	}
}
