package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// payloadWait is how long Payload waits for the launcher to write.
const payloadWait = 10 * time.Second

// Inherited is what a launched process got from its launcher.
type Inherited struct {
	payload  *os.File
	taken    atomic.Bool
	lifeline *os.File
	kept     bool
	gone     chan struct{}
	held     chan bool // holds the latest word
	wg       sync.WaitGroup
}

// FromEnv takes over the descriptors that CASTNET_PROC announces. It returns
// false if the variable is not set: this process was started by hand. It must be
// called once, before anything else opens files, and hides both the variable
// and the descriptors from processes this one starts.
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
	value, kept := strings.CutSuffix(value, keptMark)
	payload, lifeline, err := parseAnnouncement(value)
	if err != nil {
		return nil, err
	}
	// Both are checked before either is touched: a wrong number may belong to
	// somebody else.
	if err := errors.Join(checkPipe(payload), checkPipe(lifeline)); err != nil {
		return nil, err
	}
	in := &Inherited{kept: kept, gone: make(chan struct{}), held: make(chan bool, 1)}
	if in.payload, err = takeOver(payload, "payload"); err != nil {
		return nil, err
	}
	if in.lifeline, err = takeOver(lifeline, "lifeline"); err != nil {
		return nil, err
	}
	in.wg.Go(in.watchLifeline)
	return in, nil
}

var announcementRule = regexp.MustCompile(`^([1-9][0-9]{0,4}|0),([1-9][0-9]{0,4}|0)$`)

// parseAnnouncement reads "PAYLOAD,LIFELINE".
func parseAnnouncement(value string) (payload, lifeline int, err error) {
	match := announcementRule.FindStringSubmatch(value)
	if match == nil {
		return 0, 0, errors.New(`expected two descriptors, such as "3,4"`)
	}
	payload, _ = strconv.Atoi(match[1]) // the rule admits digits only
	lifeline, _ = strconv.Atoi(match[2])
	if payload < payloadFD || lifeline < payloadFD || payload == lifeline {
		return 0, 0, fmt.Errorf("expected two different descriptors of %d or above", payloadFD)
	}
	return payload, lifeline, nil
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

// takeOver makes fd ours: closed on exec, and in the poller, so that reading it
// can have a deadline.
func takeOver(fd int, name string) (*os.File, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Payload returns what the launcher sent. It can be called once; it waits up
// to 10 s for the whole of it and accepts at most MaxPayload bytes.
func (in *Inherited) Payload() ([]byte, error) { return in.readPayload(payloadWait) }

func (in *Inherited) readPayload(wait time.Duration) ([]byte, error) {
	if in.taken.Swap(true) {
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

// Kept says that this process outlives its launcher: see Held.
func (in *Inherited) Kept() bool { return in.kept }

// Lifeline is closed when the launcher is gone, however it ended. That of a kept
// process is never closed.
func (in *Inherited) Lifeline() <-chan struct{} { return in.gone }

// Held says false when the launcher is gone and, to a kept process, true when a
// launcher has adopted it. Of several words that nobody received only the last
// is kept. It has one receiver and is never closed.
func (in *Inherited) Held() <-chan bool { return in.held }

// watchLifeline waits for the end of a pipe to which nobody writes but a
// launcher that adopts.
func (in *Inherited) watchLifeline() {
	conn, err := in.lifeline.SyscallConn()
	if err != nil {
		return
	}
	held, buf := true, make([]byte, 16)
	tell := func(now bool) {
		if now != held {
			held = now
			in.say(now)
		}
	}
	// After Close it ends with an error, and nothing is known about the launcher.
	// At the end of a FIFO the poller waits for its next event, a new holder's byte.
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
		close(in.gone)
	}
}

// say replaces the last word. Only watchLifeline calls it.
func (in *Inherited) say(held bool) {
	select {
	case <-in.held:
	default:
	}
	in.held <- held
}

// Close lets go of the descriptors. Lifeline is not closed by it: who lets go
// of the lifeline is not told any more.
func (in *Inherited) Close() error {
	in.taken.Store(true)
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
