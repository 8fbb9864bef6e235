package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// machine names the machine and the versions of a run.
func machine() string {
	parts := []string{fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH),
		fmt.Sprintf("%d CPUs", runtime.GOMAXPROCS(0))}
	if model := cpuModel(); model != "" {
		parts[1] += " of " + model
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if name, ok := strings.CutPrefix(d.Path, "github.com/nats-io/"); ok && strings.HasPrefix(name, "nats") {
				parts = append(parts, name+" "+d.Version)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// cpuModel is the name of the CPU; "" on systems without it.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("model name")); ok {
			return string(bytes.Trim(rest, "\t :\n"))
		}
	}
	return ""
}
