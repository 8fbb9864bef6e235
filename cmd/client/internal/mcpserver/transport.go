package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goneTimeout is the time for the running calls of a client that has closed its side.
const goneTimeout = 5 * time.Second

// transport keeps its session open for the answers to a client that has closed its side. Without
// it the SDK would drop them, and a shell could not pipe requests into the command.
type transport struct{ mcp.IOTransport }

func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	lines, err := t.IOTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{
		Connection: lines, answered: make(chan struct{}, 1), closed: make(chan struct{}),
	}, nil
}

// connection counts the requests that wait for an answer.
type connection struct {
	mcp.Connection
	answered chan struct{} // the count has become less
	closed   chan struct{}
	close    sync.Once

	mu      sync.Mutex
	waiting int
}

// Read returns the end of the input after the last answer, or after goneTimeout. Then the SDK
// cancels the calls (MCP-4).
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err != nil {
		c.awaitAnswers(ctx)
		return nil, err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		c.count(1)
	}
	return m, nil
}

func (c *connection) awaitAnswers(ctx context.Context) {
	timer := time.NewTimer(goneTimeout)
	defer timer.Stop()
	for c.count(0) > 0 {
		select {
		case <-c.answered:
		case <-timer.C:
			return
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		c.count(-1)
		select {
		case c.answered <- struct{}{}:
		default: // the reader has not looked yet
		}
	}
	return err
}

func (c *connection) Close() error {
	c.close.Do(func() { close(c.closed) })
	return c.Connection.Close()
}

// count changes the number of requests without an answer, and returns it.
func (c *connection) count(by int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting += by
	return c.waiting
}
