package remote

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/bench/local/lines"
)

// Usage is the usage of a process since its start. The bytes written, to sockets included, and
// the memory need a /proc; elsewhere they are 0.
type Usage struct {
	CPU     time.Duration
	Written int     // bytes
	Writes  int     // system calls
	Peak    float64 // the most resident memory in MiB, since the usage before was asked for
}

// Sub is the usage since an earlier one.
func (u Usage) Sub(earlier Usage) Usage {
	return Usage{u.CPU - earlier.CPU, u.Written - earlier.Written, u.Writes - earlier.Writes, u.Peak}
}

// resetPeak makes Linux count the peak of a process from now on.
const resetPeak = "5"

// UsageRequest is the line that asks a process what it has used.
const UsageRequest = "usage"

// AnswerUsage answers a UsageRequest, and nothing else.
func AnswerUsage(_ context.Context, line string) string {
	if line != UsageRequest {
		return lines.Failure(fmt.Errorf("request %q: want %s", line, UsageRequest))
	}
	u, err := used()
	runtime.GC()
	_ = os.WriteFile("/proc/self/clear_refs", []byte(resetPeak), 0) // other systems have no peak
	if err != nil {
		return lines.Failure(err)
	}
	return lines.Values(float64(u.CPU), float64(u.Written), float64(u.Writes), u.Peak)
}

// ParseUsage reads the answer to a UsageRequest.
func ParseUsage(line string) (Usage, error) {
	values, err := lines.Parse(line)
	if err != nil {
		return Usage{}, err
	}
	if len(values) != 4 {
		return Usage{}, fmt.Errorf("usage %q: want 4 values", line)
	}
	return Usage{time.Duration(values[0]), int(values[1]), int(values[2]), values[3]}, nil
}

// used is the usage of this process.
func used() (Usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return Usage{}, err
	}
	text, _ := os.ReadFile("/proc/self/io") // other systems do not say
	peak, _ := peakMiB()
	return Usage{
		time.Duration(syscall.TimevalToNsec(r.Utime) + syscall.TimevalToNsec(r.Stime)),
		field(text, "wchar"), field(text, "syscw"), peak,
	}, nil
}

// peakMiB is the most memory this process has had resident since the peak was reset.
func peakMiB() (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	const kib = 1024
	return float64(field(text, "VmHWM")) / kib, nil
}

// field is a number in a file of /proc; 0 when it is not there.
func field(text []byte, name string) int {
	for line := range bytes.Lines(text) {
		key, rest, _ := bytes.Cut(line, []byte(":"))
		words := bytes.Fields(rest)
		if string(key) != name || len(words) == 0 {
			continue
		}
		if n, err := strconv.Atoi(string(words[0])); err == nil {
			return n
		}
	}
	return 0
}
