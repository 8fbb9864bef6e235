package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
)

// healthWithin is how long a host agent that lives may take to answer.
const healthWithin = 2 * time.Second

// health answers whoever watches over hostd, over HTTP: /healthz while it is to be left alone, /readyz
// while it takes procs (HOSTD-7).
type health struct {
	url    string
	server *http.Server
	ended  chan error // of Serve
}

// healthAddress is where --http says to listen: on loopback unless a host is named.
func healthAddress(said string) (string, error) {
	host, port, err := net.SplitHostPort(said)
	if err != nil {
		return "", cli.Usagef("--http %q: want HOST:PORT or :PORT, such as :8222", said)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// serveHealth listens, and answers from then on.
func serveHealth(ctx context.Context, addr string, n *node) (*health, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return nil, fmt.Errorf("--http %s: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { answerHealth(w, n.liveness(r.Context())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answerHealth(w, n.readiness(r.Context())) })
	h := &health{
		url:    "http://" + l.Addr().String(),
		server: &http.Server{Handler: mux, ReadHeaderTimeout: healthWithin, WriteTimeout: 2 * healthWithin, MaxHeaderBytes: 8 << 10},
		ended:  make(chan error, 1),
	}
	go func() { h.ended <- h.server.Serve(l) }()
	return h, nil
}

// close ends it with the requests that are under way.
func (h *health) close() error {
	err := h.server.Close()
	if served := <-h.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// condition is how a node is, as JSON has it.
type condition struct {
	OK     bool           `json:"ok"`
	Reason string         `json:"reason,omitempty"` // it is not
	Host   string         `json:"host"`             // "": it has not started
	Mode   agent.HostMode `json:"mode,omitempty"`
	Procs  int            `json:"procs"`
}

// liveness says whether the agent answers, once it has started: without it nobody watches the procs.
func (n *node) liveness(ctx context.Context) condition {
	if n.pending.Load() != nil {
		return condition{OK: true}
	}
	ctx, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	c := condition{Host: n.host.ID().String()}
	info, err := n.host.Info(ctx)
	if err != nil {
		c.Reason = "the host agent does not answer: " + err.Error()
		return c
	}
	c.OK, c.Mode, c.Procs = true, info.Mode, info.Procs
	if info.Mode != agent.Open && info.Why != "" {
		c.Reason = info.Why
	}
	return c
}

// readiness says whether procs can be spawned here.
func (n *node) readiness(ctx context.Context) condition {
	if pending := n.pending.Load(); pending != nil {
		return condition{Reason: *pending}
	}
	c := n.liveness(ctx)
	switch {
	case !c.OK:
	case n.bus.Control().URL() == "" || n.bus.Data().URL() == "":
		c.OK, c.Reason = false, "the bus is away: reconnecting"
	case c.Mode != agent.Open:
		c.OK, c.Reason = false, fmt.Sprintf("the host is %s: %s", c.Mode, c.Reason)
	}
	return c
}

func answerHealth(w http.ResponseWriter, c condition) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !c.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(c) // who asked may be gone
}
