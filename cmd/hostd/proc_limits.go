package main

import (
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/agent/host"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
)

// parseProcLimits parses --proc-limits, such as files=1024,processes=512,address-space=8GiB.
func parseProcLimits(text string) (l host.ProcLimits, err error) {
	if text == "" {
		return l, nil
	}
	values := map[string]*uint64{
		"files": &l.Files, "processes": &l.Processes, "address-space": &l.AddressSpace,
	}
	for part := range strings.SplitSeq(text, ",") {
		name, said, _ := strings.Cut(part, "=")
		value, ok := values[name]
		if !ok {
			return l, cli.Usagef("--proc-limits %q: want files=N, processes=N or address-space=SIZE, each once", part)
		}
		delete(values, name)
		if name == "address-space" {
			size, _ := keys.ParseSize(said)
			*value = uint64(max(size, 0))
		} else {
			*value, _ = strconv.ParseUint(said, 10, 31)
		}
		if *value == 0 {
			return l, cli.Usagef("--proc-limits %q: want a number more than 0, or a size such as 8GiB", part)
		}
	}
	if err := l.Check(); err != nil {
		return l, cli.Usagef("--proc-limits %w", err)
	}
	return l, nil
}
