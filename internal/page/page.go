package page

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"sync"

	"github.com/castnet-io/castnet/mesh"
)

//go:embed assets
var files embed.FS

// Options configure a Page.
type Options struct {
	// Connect connects to the castnet, when somebody looks for the first time.
	Connect func(ctx context.Context) (*mesh.Net, error)
	Token   string // of requests for data
	Addr    string // HOST:PORT by which browsers reach the listener
	Act     bool   // stops, restarts and casts are permitted
	Host    string // name of this host; "": none
	Version string
}

// Page is an http.Handler.
type Page struct {
	Options
	mux     *http.ServeMux
	ctx     context.Context // of all requests for data
	cancel  context.CancelFunc
	sampler sampler

	maxAsked int // procs that a sample asks

	mu       sync.Mutex
	requests sync.WaitGroup // for data
	streams  int            // among them
	closed   bool

	connecting sync.Mutex
	net        *mesh.Net // guarded by connecting; nil until somebody looks
}

// Open makes a Page. Close ends it.
func Open(o Options) (*Page, error) {
	if o.Token == "" {
		return nil, errors.New("cannot open the page: want a token")
	}
	assets, err := fs.Sub(files, "assets")
	if err != nil {
		return nil, err
	}
	p := &Page{Options: o, mux: http.NewServeMux(), maxAsked: maxAsked}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.sampler.page = p
	p.sampler.wishes = make(chan struct{}, 1)
	p.mux.Handle("GET /", http.FileServerFS(assets))
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /api/page":                       p.servePage,
		"GET /api/overview":                   p.serveOverview,
		"GET /api/meshes/{mesh}":              p.serveMesh,
		"GET /api/meshes/{mesh}/ranks/{rank}": p.serveRank,
		"GET /api/meshes/{mesh}/logs":         p.serveLogs,
		"POST /api/act":                       p.serveAct,
	} {
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { p.serveData(w, r, serve) })
	}
	return p, nil
}

// Site is the address of the page.
func (p *Page) Site() string { return "http://" + p.Addr + "/" }

// URL is the address of the page with its token, which no server sees.
func (p *Page) URL() string { return p.Site() + "#token=" + p.Token }

// Close ends all requests and disconnects.
func (p *Page) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.requests.Wait()
	p.sampler.close()
	p.connecting.Lock()
	defer p.connecting.Unlock()
	if p.net == nil {
		return nil
	}
	return p.net.Close(ctx)
}

// conn returns the connection to the castnet, which the first caller makes.
func (p *Page) conn(ctx context.Context) (*mesh.Net, error) {
	p.connecting.Lock()
	defer p.connecting.Unlock()
	if p.net != nil {
		return p.net, nil
	}
	var err error
	p.net, err = p.Connect(ctx)
	return p.net, err
}

// pageInfo is the answer to GET /api/page.
type pageInfo struct {
	Host    string `json:"host"`
	Version string `json:"version"`
	Act     bool   `json:"act"`
}
