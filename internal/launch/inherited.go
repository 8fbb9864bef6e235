package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// payloadTimeout bounds the wait of Payload for the launcher.
const payloadTimeout = 10 * time.Second

// Inherited holds a launched process's connections to its launcher.
type Inherited struct {
	payload         *os.File
	payloadTaken    atomic.Bool
	lifeline        *os.File
	kept            bool
	lifelineClosed  chan struct{}
	launcherPresent chan bool // holds the latest value
	wg              sync.WaitGroup
}

// FromEnv takes over the descriptors in CASTNET_PROC. Without the variable it returns false: a user
// started the process. Call it once, before any file is opened. It hides the variable and the
// descriptors from child processes.
func FromEnv(getenv func(string) string) (*Inherited, bool, error) {
	value := getenv(EnvVar)
	if value == "" {
		return nil, false, nil
	}
	if err := os.Unsetenv(EnvVar); err != nil {
		return nil, false, err
	}
	in, err := inherit(value)
	if err != nil {
		return nil, false, fmt.Errorf("%s=%q: %w", EnvVar, value, err)
	}
	return in, true, nil
}

func inherit(value string) (*Inherited, error) {
	value, kept := strings.CutSuffix(value, keptSuffix)
	payload, lifeline, err := parseAnnouncement(value)
	if err != nil {
		return nil, err
	}
	// Check both before a change to either: a wrong number may belong to another file.
	if err := errors.Join(checkPipe(payload), checkPipe(lifeline)); err != nil {
		return nil, err
	}
	in := &Inherited{kept: kept, lifelineClosed: make(chan struct{}), launcherPresent: make(chan bool, 1)}
	in.payload, err = adoptDescriptor(payload, "payload")
	if err != nil {
		return nil, err
	}
	in.lifeline, err = adoptDescriptor(lifeline, "lifeline")
	if err != nil {
		return nil, err
	}
	in.wg.Go(in.watchLifeline)
	return in, nil
}

// parseAnnouncement parses "PAYLOAD,LIFELINE".
func parseAnnouncement(value string) (payload, lifeline int, err error) {
	first, second, _ := strings.Cut(value, ",")
	payload, ok := parseDescriptor(first)
	lifeline, ok2 := parseDescriptor(second)
	if !ok || !ok2 {
		return 0, 0, errors.New(`expected two descriptors, such as "3,4"`)
	}
	if payload < payloadFD || lifeline < payloadFD || payload == lifeline {
		return 0, 0, fmt.Errorf("expected two different descriptors of %d or above", payloadFD)
	}
	return payload, lifeline, nil
}

// parseDescriptor parses a number of at most 5 digits, without signs or leading zeros.
func parseDescriptor(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && len(text) <= 5 && strconv.Itoa(n) == text
}

func checkPipe(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return fmt.Errorf("descriptor %d is not a pipe", fd)
	}
	return nil
}

// adoptDescriptor takes over fd: close-on-exec, and in the poller, so that reads can have
// deadlines.
func adoptDescriptor(fd int, name string) (*os.File, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Payload returns the launcher's payload, at most MaxPayload bytes. It waits up to 10 s and works
// once.
func (in *Inherited) Payload() ([]byte, error) { return in.readPayload(payloadTimeout) }

func (in *Inherited) readPayload(wait time.Duration) ([]byte, error) {
	if in.payloadTaken.Swap(true) {
		return nil, ErrPayloadTaken
	}
	defer in.payload.Close()
	if err := in.payload.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, fmt.Errorf("cannot read the payload: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(in.payload, MaxPayload+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the payload: after %d bytes: %w", len(data), err)
	}
	if len(data) > MaxPayload {
		return nil, ErrPayloadTooLarge
	}
	return data, nil
}

// Kept reports whether this process outlives its launcher, see LauncherPresent.
func (in *Inherited) Kept() bool { return in.kept }

// Lifeline is closed when the launcher is gone for any reason. For a kept process it never closes.
func (in *Inherited) Lifeline() <-chan struct{} { return in.lifelineClosed }

// LauncherPresent sends false when the launcher is gone and, to a kept process, true after
// adoption. Only the latest unreceived value is kept. It serves one receiver and is never closed.
func (in *Inherited) LauncherPresent() <-chan bool { return in.launcherPresent }

// watchLifeline waits for the end of the lifeline pipe. Only an adopting launcher ever writes to
// it.
func (in *Inherited) watchLifeline() {
	conn, err := in.lifeline.SyscallConn()
	if err != nil {
		return
	}
	held, buf := true, make([]byte, 16)
	tell := func(now bool) {
		if now != held {
			held = now
			in.publishPresence(now)
		}
	}
	// After Close the read fails, with no news of the launcher. At the end of a FIFO the poller
	// waits for the next event: a new holder's byte.
	_ = conn.Read(func(fd uintptr) bool {
		for {
			switch n, err := unix.Read(int(fd), buf); {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				return false
			case n > 0:
				tell(true)
			default:
				tell(false)
				return !in.kept
			}
		}
	})
	if !held && !in.kept {
		close(in.lifelineClosed)
	}
}

// publishPresence replaces the latest value. Only watchLifeline calls it.
func (in *Inherited) publishPresence(held bool) {
	select {
	case <-in.launcherPresent:
	default:
	}
	in.launcherPresent <- held
}

// Close closes the descriptors. It does not close Lifeline: without the descriptor the launcher's
// state is unknown.
func (in *Inherited) Close() error {
	in.payloadTaken.Store(true)
	err := errors.Join(ignoreClosed(in.payload.Close()), ignoreClosed(in.lifeline.Close()))
	in.wg.Wait()
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
