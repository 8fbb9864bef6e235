package page

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/castnet-io/castnet/mesh"
)

// contentPolicy permits the page's own files only.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP answers requests for files and data (PAGE-1).
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if err := p.checkOrigin(r); err != nil {
		writeError(w, http.StatusForbidden, err)
		return
	}
	p.mux.ServeHTTP(w, r)
}

// checkOrigin refuses names that another site made resolve to this address, and requests of other
// sites.
func (p *Page) checkOrigin(r *http.Request) error {
	if !p.isOwnAddress(r.Host) {
		return errors.New("want the address of the page as Host, got " + strings.ToValidUTF8(r.Host, "?"))
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Host != r.Host {
			return errors.New("want a request of the page itself, got one of " + strings.ToValidUTF8(origin, "?"))
		}
	}
	return nil
}

// isOwnAddress reports whether a Host header names the listener: its address, or localhost for a
// loopback one.
func (p *Page) isOwnAddress(said string) bool {
	host, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return false
	}
	name, of, err := net.SplitHostPort(said)
	if err != nil {
		name, of = said, "80"
	}
	if of != port {
		return false
	}
	ip := net.ParseIP(host)
	switch {
	case strings.EqualFold(name, host):
		return true
	case ip == nil:
		return false
	case ip.IsLoopback():
		return strings.EqualFold(name, "localhost")
	default:
		return ip.IsUnspecified() && net.ParseIP(name) != nil // no name: another site may choose its address
	}
}

// serveData answers a request for data, if it has the token.
func (p *Page) serveData(
	w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request) error,
) {
	said := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(said), []byte(p.Token)) != 1 {
		writeError(w, http.StatusUnauthorized, errors.New("want the token of the page: open its whole address"))
		return
	}
	if !p.begin() {
		writeError(w, http.StatusServiceUnavailable, errors.New("the page is closing"))
		return
	}
	defer p.requests.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
	if err == nil {
		err = serve(w, r.WithContext(ctx))
	}
	if err != nil {
		code := http.StatusInternalServerError
		if e, ok := errors.AsType[*statusError](err); ok {
			code = e.code
		} else if _, none := errors.AsType[*mesh.NotFoundError](err); none {
			code = http.StatusNotFound
		}
		writeError(w, code, err)
	}
}

// begin counts a request for data, until requests.Done. false: the page is closing.
func (p *Page) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.requests.Add(1)
	}
	return !p.closed
}

// answerTimeout bounds an answer, in place of the bound of the server.
const answerTimeout = actTimeout + 5*time.Second

// statusError is an error with a code of HTTP.
type statusError struct {
	code int
	error
}

func badRequest(format string, a ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Errorf(format, a...)}
}

// writeError answers with an error.
func writeError(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // the requester may be gone
}

func writeJSON(w http.ResponseWriter, document any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(document)
}
