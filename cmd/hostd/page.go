package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/page"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// pageFile is the file in the directory of the host that has the address of the page.
const pageFile = "page"

// openPage makes the live page of the HTTP server (HOSTD-14). Its connection to the bus is made
// when somebody looks.
func (n *node) openPage(addr string, log zerolog.Logger) (*page.Page, error) {
	return page.Open(page.Options{
		Token: rand.Text(), Addr: addr, Act: n.flags.uiAct, Host: n.label, Version: cli.Version(),
		Connect: func(ctx context.Context) (*mesh.Net, error) {
			if pending := n.pendingReason.Load(); pending != nil {
				return nil, errors.New(*pending)
			}
			o := n.options
			return mesh.Connect(ctx, mesh.Options{
				Principal: mesh.UserPrincipal(n.pageRole()),
				Bus:       &o, Root: n.space.Root(), Namespace: n.space.Namespace(), Label: "page",
				Config: n.keys, Log: log,
				OnFailure: func(actor.Event) {}, // it makes no mesh
			})
		},
	})
}

// pageRole is the role of whoever looks at the page.
func (n *node) pageRole() subjects.Role {
	if n.flags.uiAct {
		return subjects.Operator
	}
	return subjects.Observer
}

// writePageFile keeps the address of the page, with its token, for the user of hostd.
func (n *node) writePageFile() error {
	if n.health == nil {
		return nil
	}
	file := filepath.Join(n.host.RunDir(), pageFile)
	if err := os.WriteFile(file, []byte(n.health.page.URL()+"\n"), 0o600); err != nil {
		return fmt.Errorf("cannot keep the address of the page: %w", err)
	}
	return nil
}
