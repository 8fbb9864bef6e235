package auth

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/castnet-io/castnet/subjects"
)

// Server says where the server of a configuration listens, and where it keeps its data.
type Server struct {
	Listen string // HOST:PORT
	Data   string // directory of accounts and of JetStream
}

// Conf is the configuration of a nats-server that trusts the Authority. The server keeps accounts
// in a directory, so that a push outlives its restart.
func (a *Authority) Conf(s Server) (string, error) {
	operator, err := a.operatorJWT()
	if err != nil {
		return "", err
	}
	system, systemText, err := a.systemJWT()
	if err != nil {
		return "", err
	}
	account, err := publicOf(a.AccountSeed)
	if err != nil {
		return "", err
	}
	accountText, err := a.AccountJWT()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\n", quote(s.Listen))
	fmt.Fprintf(&b, "jetstream { store_dir: %s }\n", quote(filepath.Join(s.Data, "jetstream")))
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\n", operator, system)
	fmt.Fprintf(&b, "resolver {\n  type: full\n  dir: %s\n  allow_delete: false\n  interval: \"2m\"\n}\n",
		quote(filepath.Join(s.Data, "accounts")))
	fmt.Fprintf(&b, "resolver_preload {\n  %s: %s\n  %s: %s\n}\n", system, systemText, account, accountText)
	return b.String(), nil
}

// FixedUsers are users with random passwords, for a server without JWTs.
type FixedUsers struct {
	Conf      string            // of the server
	Passwords map[string]string // by principal
	Hosts     []HostKey         // of the hosts among the principals
}

// NewFixedUsers makes users for principals. A host has its procs as a second user (AUTH-4).
func NewFixedUsers(space subjects.Space, s Server, names []string) (FixedUsers, error) {
	f := FixedUsers{Passwords: map[string]string{}}
	var users strings.Builder
	add := func(p subjects.Principal) (Issuer, error) {
		if _, taken := f.Passwords[p.String()]; taken {
			return Issuer{}, fmt.Errorf("user %s is named twice", p)
		}
		i := Issuer{Principal: p, Password: rand.Text()}
		f.Passwords[p.String()] = i.Password
		// The password has 130 random bits: a costlier hash would only slow down each connect.
		hash, err := bcrypt.GenerateFromPassword([]byte(i.Password), bcrypt.MinCost)
		if err == nil {
			fmt.Fprintf(&users, "    { user: %s, password: %s, permissions: %s }\n", quote(p.String()),
				quote(string(hash)), permissions(space.Grants(subjects.User{Principal: p})))
		}
		return i, err
	}
	for _, name := range names {
		p, err := subjects.ParsePrincipal(name)
		if err != nil {
			return FixedUsers{}, err
		}
		switch {
		case p.Role().IsOneOf(subjects.UserRoles()...):
			_, err = add(p)
		case p.Role().IsOneOf(subjects.Host, subjects.System):
			k := HostKey{Version: version, Root: space.Root(), Namespace: space.Namespace()}
			k.Host, err = add(p)
			if err == nil {
				k.Procs, err = add(subjects.Proc.Principal(p.Label()))
			}
			f.Hosts = append(f.Hosts, k)
		default:
			err = fmt.Errorf("user %s: want u-, o-, w-, c-, h- or s-NAME; a host brings p-NAME with it", p)
		}
		if err != nil {
			return FixedUsers{}, err
		}
	}
	f.Conf = fmt.Sprintf("listen: %s\njetstream { store_dir: %s }\nauthorization {\n  users = [\n%s  ]\n}\n",
		quote(s.Listen), quote(filepath.Join(s.Data, "jetstream")), users.String())
	return f, nil
}

// permissions are grants in the language of the configuration.
func permissions(g subjects.Grants) string {
	side := func(allow, deny []string) string {
		return fmt.Sprintf("{ allow: %s, deny: %s }", list(allow), list(deny))
	}
	return fmt.Sprintf("{ publish: %s, subscribe: %s }", side(g.Publish, g.DenyPublish),
		side(g.Subscribe, g.DenySubscribe))
}

func list(subjects []string) string {
	quoted := make([]string, len(subjects))
	for i, s := range subjects {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote is a text of the configuration: its escapes are those of JSON.
func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		return `""` // unreachable: a string marshals
	}
	return strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(string(data))
}
