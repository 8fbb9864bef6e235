package embed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus/ticket"
)

// startTimeout bounds Start when its context has no deadline.
const startTimeout = 10 * time.Second

// Server is a running nats-server.
type Server struct {
	srv      *server.Server
	log      zerolog.Logger
	token    string
	listens  bool
	tempDir  string   // of JetStream, ours to remove
	tickets  *tickets // nil: the server takes none
	shutdown sync.Once
}

// Start returns a server that is ready for connections, or a *StartError. A failed Start leaves
// nothing behind.
func Start(ctx context.Context, o Options) (*Server, error) {
	so, err := o.serverOptions()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, &StartError{Err: err}
	}
	where := listenAddr(so) // the server writes the port it got into so
	tempDir, err := temporaryStore(so)
	if err != nil {
		return nil, &StartError{Addr: where, Err: err}
	}
	s := &Server{log: o.Log, token: so.Authorization, listens: !so.DontListen, tempDir: tempDir}
	if o.Tickets {
		s.tickets = newTickets(o.Token, o.Log)
		so.CustomClientAuthentication = s.tickets
		so.ServerName = ticket.NewServerName()
	}
	if err := s.start(ctx, so, o.Insecure); err != nil {
		s.Shutdown()
		return nil, &StartError{Addr: where, Err: err}
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, so *server.Options, insecure bool) error {
	srv, err := server.NewServer(so)
	if err != nil {
		return err
	}
	s.srv = srv
	if s.tickets != nil {
		s.tickets.srv = srv
	}
	if s.listens && !insecure && !isLoopback(so.Host) {
		if open, err := allowsAnonymous(srv, so); err != nil {
			return err
		} else if open {
			return fmt.Errorf("%w: set a token, a user, or Insecure", ErrUnauthenticated)
		}
	}
	logger := newLogAdapter(s.log)
	debug := s.log.GetLevel() <= zerolog.DebugLevel
	srv.SetLoggerV2(logger, debug, false, false)
	srv.Start()
	if err := logger.fatalError(); err != nil {
		return err
	}
	wait := startTimeout
	if d, ok := ctx.Deadline(); ok {
		wait = time.Until(d)
	}
	if !srv.ReadyForConnections(wait) {
		return errors.Join(fmt.Errorf("not ready within %v", wait), logger.fatalError())
	}
	return nil
}

// URL is the address for clients, without credentials; "" if the server does not listen.
func (s *Server) URL() string {
	if !s.listens {
		return ""
	}
	return s.srv.ClientURL()
}

// ClusterAddr is the address for other servers of its cluster; "" without one.
func (s *Server) ClusterAddr() string {
	if addr := s.srv.ClusterAddr(); addr != nil {
		return addr.String()
	}
	return ""
}

// Token is the clients' token, from Options or ConfigFile.
func (s *Server) Token() string { return s.token }

// EndTicket refuses the ticket with this serial from now on, and closes its connections (EMB-3).
func (s *Server) EndTicket(serial string) {
	if s.tickets != nil {
		s.tickets.end(serial)
	}
}

// InProcessConn returns a connection without a socket, for bus.Options.Server.
func (s *Server) InProcessConn() (net.Conn, error) {
	c, err := s.srv.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &inProcessConn{Conn: c}, nil
}

// NumClients counts the connections of clients.
func (s *Server) NumClients() int { return s.srv.NumClients() }

// NumSubs counts the subscriptions of clients and of the server itself.
func (s *Server) NumSubs() int { return int(s.srv.NumSubscriptions()) }

// LameDuck sends clients to other servers, a few at a time, then shuts down. It returns afterwards:
// at once without clients, and within 30 s unless ConfigFile says otherwise.
func (s *Server) LameDuck() {
	s.srv.LameDuckShutdown()
	s.Shutdown()
}

// Shutdown cuts all connections, stops the server and waits for it. A second
// call waits, too.
func (s *Server) Shutdown() {
	s.shutdown.Do(func() {
		if s.srv != nil {
			s.srv.Shutdown()
			s.srv.WaitForShutdown()
		}
		if s.tempDir != "" {
			if err := os.RemoveAll(s.tempDir); err != nil {
				s.log.Warn().Err(err).Msg("cannot remove the temporary directory of JetStream")
			}
		}
	})
}

// isLoopback does not resolve names, because a resolution may change.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// allowsAnonymous asks the server itself, because it knows all its schemes. A verified client
// certificate counts as authentication. A user for clients without credentials does not.
func allowsAnonymous(srv *server.Server, so *server.Options) (bool, error) {
	v, err := srv.Varz(nil)
	if err != nil {
		return false, err
	}
	return so.NoAuthUser != "" || !v.AuthRequired && !v.TLSVerify, nil
}
