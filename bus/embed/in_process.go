package embed

import (
	"net"
	"sync"
)

// inProcessConn is a client's end of an unbuffered pipe to the server. Client and server would wait
// for each other if the server refused a CONNECT while the client wrote its PING. So the client
// does not wait for its writes before the reply.
type inProcessConn struct {
	net.Conn
	writer sync.WaitGroup // writes the handshake

	mu        sync.Mutex // guards the fields below
	handshake []byte     // not written yet: a CONNECT and a PING, whose reply the client awaits
	writing   bool
	wrote     bool
	answered  bool // a reply to the handshake was read, or the connection is closed
}

// Write writes at once after the handshake.
func (c *inProcessConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.answered {
		c.mu.Unlock()
		c.writer.Wait()
		return c.Conn.Write(b)
	}
	defer c.mu.Unlock()
	c.wrote = true
	c.handshake = append(c.handshake, b...)
	if !c.writing {
		c.writing = true
		c.writer.Go(c.writeHandshake)
	}
	return len(b), nil
}

// writeHandshake writes until nothing is left. An error also ends the read.
func (c *inProcessConn) writeHandshake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.handshake) > 0 {
		next := c.handshake
		c.handshake = nil
		c.mu.Unlock()
		_, _ = c.Conn.Write(next)
		c.mu.Lock()
	}
	c.writing = false
}

func (c *inProcessConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = c.answered || c.wrote
	return n, err
}

// Close waits for the writer.
func (c *inProcessConn) Close() error {
	c.mu.Lock()
	c.answered = true
	c.mu.Unlock()
	err := c.Conn.Close()
	c.writer.Wait()
	return err
}
