package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
)

// profilesEnv names the directory for CPU profiles of castnet's processes. Without it there are none.
const profilesEnv = "CASTNET_BENCH_PROFILES"

// hasCastnet reports whether processes of a role run code of castnet.
func hasCastnet(role string) bool {
	switch role {
	case responderRole, starterRole, subscriberRole, floorRole, rawRole, fanoutRole, naiveRole:
		return false
	}
	return true
}

// profiled runs a process of castnet, and writes its CPU profile to role-pid.pprof in a directory.
func profiled(dir, role string, life func() int) int {
	if dir == "" || !hasCastnet(role) {
		return life()
	}
	code := 1
	path := filepath.Join(dir, role+"-"+strconv.Itoa(os.Getpid())+".pprof")
	if err := profileTo(path, func() { code = life() }); err != nil {
		fmt.Fprintf(os.Stderr, "bench: cannot profile %s: %v\n", role, err)
		return 1
	}
	return code
}

// profileTo writes a CPU profile of f to a file.
func profileTo(path string, f func()) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return errors.Join(err, out.Close())
	}
	f()
	pprof.StopCPUProfile()
	return out.Close()
}
