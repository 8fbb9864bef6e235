package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/page"
	"github.com/castnet-io/castnet/mesh"
)

// uiHeaderTimeout bounds the wait for the header of a request.
const uiHeaderTimeout = 5 * time.Second

func uiCommand(a *app.App) *cobra.Command {
	var act, noBrowser bool
	addr := "127.0.0.1:0"
	c := &cobra.Command{
		Use:   "ui",
		Short: "Open a live page of hosts, meshes and ranks in the browser",
		Long: `Serve the live page on loopback until Ctrl-C, and open it in the browser. It shows hosts, meshes, each
rank in a map, events and logs. A region drawn on the map gives the commands for it. With --act the page
also runs them: casts, stacks, restarts and stops.

The page is as hostd --http serves it. Its address has a token; other users of the machine cannot open
it without. The page asks nothing while no window shows it.`,
		Example: "  castnet ui\n  castnet ui --addr :8223 --no-browser\n  castnet ui --act",
		Args:    flags.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return serveUI(c.Context(), a, addr, act, !noBrowser)
		},
	}
	flags.Add(c.Flags(), &addr, "addr", "HOST:PORT", "the address; :PORT is on loopback (default: a free port)",
		cli.LoopbackAddress)
	c.Flags().BoolVar(&act, "act", false, "permit casts, restarts and stops on the page")
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address")
	return c
}

// serveUI serves the page until ctx ends.
func serveUI(ctx context.Context, a *app.App, addr string, act, browse bool) error {
	return a.WithNet(ctx, func(conn *mesh.Net) error {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("cannot serve the page: %w", err)
		}
		p, err := page.Open(page.Options{
			Connect: func(context.Context) (*mesh.Net, error) { return conn, nil },
			Token:   rand.Text(), Addr: cli.ListenerAddress(addr, l), Act: act, Version: cli.Version(),
		})
		if err != nil {
			return errors.Join(err, l.Close())
		}
		server := &http.Server{Handler: p, ReadHeaderTimeout: uiHeaderTimeout, IdleTimeout: time.Minute,
			MaxHeaderBytes: 8 << 10}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		fmt.Fprintln(a.Stdout, p.URL())
		if browse {
			forget, err := openBrowser(ctx, p.URL(), a.Getenv)
			if err != nil {
				a.Notef("cannot open a browser: %v", err)
			}
			defer forget()
		}
		a.Notef("Ctrl-C ends the page")
		select {
		case err = <-served:
		case <-conn.Bus().Done():
			err = conn.Bus().Err()
		case <-ctx.Done():
		}
		return errors.Join(err, server.Close(), p.Close(context.WithoutCancel(ctx)))
	})
}

// openBrowser opens a page. The address goes through a file of this user alone, since the arguments
// of a browser are visible to others; forget removes it.
func openBrowser(ctx context.Context, url string, getenv func(string) string) (forget func(), err error) {
	opener := getenv("BROWSER")
	switch {
	case opener != "":
	case runtime.GOOS == "darwin":
		opener = "open"
	default:
		opener = "xdg-open"
	}
	f, err := os.CreateTemp("", "castnet-ui-*.html") // 0600
	if err != nil {
		return func() {}, err
	}
	forget = func() { _ = os.Remove(f.Name()) }
	_, err = fmt.Fprintf(f, "<!doctype html><title>castnet</title>"+
		"<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", url)
	if err := errors.Join(err, f.Close()); err != nil {
		return forget, err
	}
	browser := exec.CommandContext(context.WithoutCancel(ctx), opener, f.Name()) // it may outlive this command
	browser.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                    // Ctrl-C is for this command
	if err := browser.Start(); err != nil {
		return forget, err
	}
	return forget, browser.Process.Release()
}
