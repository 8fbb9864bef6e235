package embed

import (
	"net"
	"sync"
)

// inProcessConn is a client's end of an unbuffered pipe to the server. Client and server would wait
// for each other if the server refused a CONNECT while the client wrote its PING. So the writes
// before the reply wait for the client's read, and leave while it reads.
type inProcessConn struct {
	net.Conn

	mu        sync.Mutex // guards the fields below
	handshake []byte     // not written yet
	answered  bool       // the client has begun to read the reply
	writer    sync.WaitGroup
}

// Write writes at once after the handshake.
func (c *inProcessConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.answered {
		c.mu.Unlock()
		return c.Conn.Write(b)
	}
	defer c.mu.Unlock()
	c.handshake = append(c.handshake, b...)
	return len(b), nil
}

// Read starts the writing of the handshake.
func (c *inProcessConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	if first := c.handshake; first != nil {
		c.handshake = nil
		c.answered = true
		c.writer.Go(func() { _, _ = c.Conn.Write(first) }) // an error also ends the read
	}
	c.mu.Unlock()
	return c.Conn.Read(b)
}

// Close waits for the writer.
func (c *inProcessConn) Close() error {
	err := c.Conn.Close()
	c.writer.Wait()
	return err
}
