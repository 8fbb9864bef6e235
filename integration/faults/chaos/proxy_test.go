package chaos_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/integration/faults/chaos"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds each wait. Only a failing test reaches it.
const patience = 20 * time.Second

// server accepts connections and passes them to the test.
type server struct {
	listener net.Listener
	conns    chan *net.TCPConn
}

func serve(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{l, make(chan *net.TCPConn, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns <- c.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	return s
}

func (s *server) addr() string { return s.listener.Addr().String() }

// next is the server's end of the next connection.
func (s *server) next(t *testing.T) *net.TCPConn {
	t.Helper()
	select {
	case c := <-s.conns:
		return bounded(t, c)
	case <-time.After(patience):
		require.FailNow(t, "no connection came")
		return nil
	}
}

func bounded(t *testing.T, c *net.TCPConn) *net.TCPConn {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { c.Close() })
	return c
}

// rig is a proxy between a test's client and its server.
func rig(t *testing.T) (*chaos.Proxy, *server) {
	t.Helper()
	s := serve(t)
	p, err := chaos.Start(s.addr())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, s
}

func dial(t *testing.T, p *chaos.Proxy) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", p.Addr(), patience)
	require.NoError(t, err)
	return bounded(t, c.(*net.TCPConn))
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// pump writes in the background and reports its end.
func pump(c net.Conn, data []byte) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		done <- err
	}()
	return done
}

func TestProxy_passesEachByteOnceInOrder_CHAOS1(t *testing.T) {
	p, s := rig(t)
	client := dial(t, p)
	far := s.next(t)
	data := noise(8 << 20)
	up, down := pump(client, data), pump(far, data)
	for _, c := range []net.Conn{client, far} {
		got := make([]byte, len(data))
		_, err := io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, sha256.Sum256(data), sha256.Sum256(got))
	}
	require.NoError(t, <-up)
	require.NoError(t, <-down)
	require.Equal(t, chaos.Stats{Accepted: 1, Open: 1, Up: 8 << 20, Down: 8 << 20}, p.Stats())
}

func TestProxy_passesAnEndOn_CHAOS1(t *testing.T) {
	p, s := rig(t)
	client := dial(t, p)
	far := s.next(t)
	_, err := client.Write([]byte("bye"))
	require.NoError(t, err)
	require.NoError(t, client.Close())
	got, err := io.ReadAll(far)
	require.NoError(t, err)
	require.Equal(t, "bye", string(got))
}

func TestCut_passesExactlyTheBytesBeforeIt_CHAOS2(t *testing.T) {
	data := noise(200_000)
	for _, after := range []int{1, 2, 4096, 32768, 32769, 100_001} {
		p, s := rig(t)
		client := dial(t, p)
		far := s.next(t)
		cut := p.Cut(chaos.Cut{Direction: chaos.Up, After: after})
		wrote := pump(client, data)
		got, err := io.ReadAll(far)
		require.NoError(t, err, "FIN")
		require.True(t, bytes.Equal(data[:after], got), "%d bytes arrived, want %d", len(got), after)
		require.WithinDuration(t, time.Now(), <-cut, patience)
		_, err = io.ReadAll(client)
		if err != nil { // the proxy had bytes of it left to read, which the kernel answers with RST
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
		<-wrote // into the kernel's buffer, or not
		require.Equal(t, 1, p.Stats().Cuts)
	}
}

func TestCut_resetReachesBothEnds_CHAOS2(t *testing.T) {
	p, s := rig(t)
	client := dial(t, p)
	far := s.next(t)
	cut := p.Cut(chaos.Cut{Direction: chaos.Down, After: 1000, Reset: true})
	wrote := pump(far, noise(50_000))
	got, err := io.ReadAll(client)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.LessOrEqual(t, len(got), 1000)
	<-cut
	werr := <-wrote
	_, err = io.ReadAll(far)
	require.ErrorIs(t, errors.Join(werr, err), syscall.ECONNRESET, "the kernel says it once")
}

func TestCut_affectsOneConnectionOrAll_CHAOS2(t *testing.T) {
	for _, all := range []bool{false, true} {
		p, s := rig(t)
		a, b := dial(t, p), dial(t, p)
		first, second := s.next(t), s.next(t)
		require.Eventually(t, func() bool { return p.Stats().Accepted == 2 }, patience, time.Millisecond)
		cut := p.Cut(chaos.Cut{Direction: chaos.Up, After: 3, All: all, Reset: true})
		_, err := a.Write([]byte("abcdef"))
		require.NoError(t, err)
		<-cut
		_, err = io.ReadAll(a)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = b.Write([]byte("x"))
		if all {
			_, rerr := io.ReadAll(b)
			require.ErrorIs(t, errors.Join(err, rerr), syscall.ECONNRESET, "the kernel says it once")
			continue
		}
		require.NoError(t, err)
		got := make(chan byte, 2)
		for _, far := range []net.Conn{first, second} {
			go func() {
				buf := make([]byte, 1)
				if _, err := far.Read(buf); err == nil {
					got <- buf[0]
				}
			}()
		}
		require.Equal(t, byte('x'), <-got, "the other connection lives")
	}
}

func TestCut_cancelledCutDoesNotHappen_CHAOS2(t *testing.T) {
	p, s := rig(t)
	client := dial(t, p)
	far := s.next(t)
	p.Cut(chaos.Cut{Direction: chaos.Up, After: 2})
	p.Disarm()
	_, err := client.Write([]byte("whole"))
	require.NoError(t, err)
	got := make([]byte, 5)
	_, err = io.ReadFull(far, got)
	require.NoError(t, err)
	require.Equal(t, "whole", string(got))
	require.Zero(t, p.Stats().Cuts)
}

func TestStall_losesNothing_CHAOS1(t *testing.T) {
	p, s := rig(t)
	client := dial(t, p)
	far := s.next(t)
	p.Stall()
	data := noise(1 << 20)
	wrote := pump(client, data)
	require.NoError(t, far.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := far.Read(make([]byte, 1))
	var timeout net.Error
	require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "nothing comes through: %v", err)
	p.Resume()
	require.NoError(t, far.SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, len(data))
	_, err = io.ReadFull(far, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	require.NoError(t, <-wrote)
}

func TestHold_releasesBytesOnTheOldConnection_CHAOS1(t *testing.T) {
	p, s := rig(t)
	client := dial(t, p)
	old := s.next(t)
	_, err := client.Write([]byte("before "))
	require.NoError(t, err)
	got := make([]byte, 7)
	_, err = io.ReadFull(old, got)
	require.NoError(t, err)

	held := p.Hold()
	_, err = client.Write([]byte("held back"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.Stats().Up == 16 }, patience, time.Millisecond)
	held.SendAway()
	_, err = io.ReadAll(client)
	require.ErrorIs(t, err, syscall.ECONNRESET)

	again := dial(t, p)
	fresh := s.next(t)
	_, err = again.Write([]byte("new"))
	require.NoError(t, err)
	_, err = io.ReadFull(fresh, got[:3])
	require.NoError(t, err)
	require.Equal(t, "new", string(got[:3]), "a new connection is not concerned")
	wrote := pump(old, noise(1<<20))
	require.NoError(t, <-wrote, "the old one is still open, and is read")

	held.Release()
	late, err := io.ReadAll(old)
	require.NoError(t, err)
	require.Equal(t, "held back", string(late))
	require.NoError(t, old.Close())
	require.Eventually(t, func() bool { return p.Stats().Open == 1 }, patience, time.Millisecond,
		"the new one is left")
}

func TestClose_endsHeldAndStalledConnections_CHAOS5(t *testing.T) {
	p, s := rig(t)
	client := dial(t, p)
	far := s.next(t)
	p.Hold().SendAway()
	other := dial(t, p)
	last := s.next(t)
	p.Stall()
	_, err := other.Write([]byte("x"))
	require.NoError(t, err)
	p.Close()
	p.Close()
	for _, c := range []net.Conn{client, far, other, last} {
		_, err := io.ReadAll(c)
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
}

func TestSlow_delaysAndThrottles(t *testing.T) {
	p, s := rig(t)
	client := dial(t, p)
	far := s.next(t)
	const latency = 60 * time.Millisecond
	p.Slow(chaos.Both, chaos.Weather{Latency: latency})
	began := time.Now()
	_, err := client.Write([]byte("ping"))
	require.NoError(t, err)
	_, err = io.ReadFull(far, make([]byte, 4))
	require.NoError(t, err)
	_, err = far.Write([]byte("pong"))
	require.NoError(t, err)
	_, err = io.ReadFull(client, make([]byte, 4))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 2*latency)

	p.Slow(chaos.Up, chaos.Weather{Bandwidth: 1 << 20})
	began = time.Now()
	wrote := pump(client, noise(128<<10))
	_, err = io.ReadFull(far, make([]byte, 128<<10))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 80*time.Millisecond,
		"an eighth of a second, less the last read")
	require.NoError(t, <-wrote)
}

func TestRedirect_affectsNewConnectionsOnly(t *testing.T) {
	p, s := rig(t)
	other := serve(t)
	old := dial(t, p)
	far := s.next(t)
	p.Redirect(other.addr())
	fresh := dial(t, p)
	got := make([]byte, 1)
	for _, way := range []struct{ from, to net.Conn }{{old, far}, {fresh, other.next(t)}} {
		_, err := way.from.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(way.to, got)
		require.NoError(t, err)
	}
}

func TestProxy_missingServerIsACutConnection(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	p, err := chaos.Start(gone.Addr().String())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	client, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err == nil { // the kernel took the connection before the proxy refused it
		defer client.Close()
		_, err = io.ReadAll(client)
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Zero(t, p.Stats().Accepted)
}

func TestRecord_hasTheBytesOfBothDirections_CHAOS6(t *testing.T) {
	p, s := rig(t)
	client := dial(t, p)
	far := s.next(t)
	exchange := func(from, to net.Conn, text string) {
		_, err := from.Write([]byte(text))
		require.NoError(t, err)
		_, err = io.ReadFull(to, make([]byte, len(text)))
		require.NoError(t, err)
	}
	exchange(client, far, "before")
	require.Empty(t, p.Recorded())
	p.Record()
	exchange(client, far, "up")
	exchange(client, far, " and up")
	exchange(far, client, "down")
	require.ElementsMatch(t, [][]byte{[]byte("up and up"), []byte("down")}, p.Recorded())
	big := noise(65 << 20)
	sent := pump(client, big)
	_, err := io.ReadFull(far, make([]byte, len(big)))
	require.NoError(t, err)
	require.NoError(t, <-sent)
	all := 0
	for _, stream := range p.Recorded() {
		all += len(stream)
	}
	require.Equal(t, 64<<20, all)
}
