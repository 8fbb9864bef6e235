package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/metrics"
	"github.com/castnet-io/castnet/internal/page"
	"github.com/castnet-io/castnet/subjects"
)

// healthTimeout bounds the answer of a live host agent.
const healthTimeout = 2 * time.Second

// healthServer serves HTTP: /healthz for liveness, /readyz for readiness (HOSTD-7), /metrics for
// Prometheus, and the live page.
type healthServer struct {
	url    string
	page   *page.Page
	server *http.Server
	ended  chan error // result of Serve
}

// serveHealth starts the health server.
func serveHealth(ctx context.Context, addr string, n *node, log zerolog.Logger) (*healthServer, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return nil, fmt.Errorf("--http %s: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz",
		func(w http.ResponseWriter, r *http.Request) { writeHealth(w, n.liveness(r.Context())) })
	mux.HandleFunc("GET /readyz",
		func(w http.ResponseWriter, r *http.Request) { writeHealth(w, n.readiness(r.Context())) })
	mux.Handle("GET /metrics", metrics.Handler(n.metrics))
	live, err := n.openPage(cli.ListenerAddress(addr, l), log)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux.Handle("/", live)
	h := &healthServer{
		url: "http://" + l.Addr().String(), page: live,
		server: &http.Server{
			Handler: mux, ReadHeaderTimeout: healthTimeout, WriteTimeout: 2 * healthTimeout,
			IdleTimeout:    time.Minute,
			MaxHeaderBytes: 8 << 10,
		},
		ended: make(chan error, 1),
	}
	go func() { h.ended <- h.server.Serve(l) }()
	return h, nil
}

// close stops the server with its open requests.
func (h *healthServer) close(ctx context.Context) error {
	err := errors.Join(h.server.Close(), h.page.Close(ctx))
	if served := <-h.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// healthStatus is the JSON form of a node's health.
type healthStatus struct {
	OK     bool           `json:"ok"`
	Reason string         `json:"reason,omitempty"` // set if not ok
	Host   string         `json:"host"`             // "": not started
	Mode   agent.HostMode `json:"mode,omitempty"`
	Procs  int            `json:"procs"`
}

// metrics returns the metrics of a started host.
func (n *node) metrics(ctx context.Context) (agent.Metrics, error) {
	if pending := n.pendingReason.Load(); pending != nil {
		return agent.Metrics{}, errors.New(*pending)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	return n.host.Metrics(ctx)
}

// partMetrics returns the metrics of the other parts of this process.
func (n *node) partMetrics() map[subjects.ProcID]agent.MeshMetrics {
	all := map[subjects.ProcID]agent.MeshMetrics{}
	if g := n.serving.Load(); g != nil {
		id, m := g.Metrics()
		all[id] = m
	}
	if s := n.systemServing.Load(); s != nil {
		if id, m, acts := s.Metrics(); acts {
			all[id] = m
		}
	}
	return all
}

// liveness checks that a started agent answers. Without its agent the procs are unwatched.
func (n *node) liveness(ctx context.Context) healthStatus {
	if n.pendingReason.Load() != nil {
		return healthStatus{OK: true}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	c := healthStatus{Host: n.host.ID().String()}
	info, err := n.host.Info(ctx)
	if err != nil {
		c.Reason = "the host agent does not answer: " + err.Error()
		return c
	}
	c.OK = true
	c.Mode = info.Mode
	c.Procs = info.Procs
	if info.Mode != agent.ModeOpen && info.ModeReason != "" {
		c.Reason = info.ModeReason
	}
	return c
}

// readiness checks that the host takes procs.
func (n *node) readiness(ctx context.Context) healthStatus {
	if pending := n.pendingReason.Load(); pending != nil {
		return healthStatus{Reason: *pending}
	}
	c := n.liveness(ctx)
	switch {
	case !c.OK:
	case n.bus.Control().URL() == "" || n.bus.Data().URL() == "":
		c.OK, c.Reason = false, "disconnected from the bus: reconnecting"
	case c.Mode != agent.ModeOpen:
		c.OK, c.Reason = false, fmt.Sprintf("the host is %s: %s", c.Mode, c.Reason)
	}
	return c
}

func writeHealth(w http.ResponseWriter, c healthStatus) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !c.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(c) // the requester may be gone
}
