package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// resource is a kernel limit with its value; 0: none.
type resource struct {
	name  string
	id    int
	value uint64
}

func (l ProcessLimits) resources() []resource {
	return []resource{
		{"files", unix.RLIMIT_NOFILE, l.Files},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
		{"address-space", unix.RLIMIT_AS, l.AddressSpace},
	}
}

// CheckFor is Check for children of a user; nil: that of this process.
func (l ProcessLimits) CheckFor(u *User) error {
	if u == nil || l == (ProcessLimits{}) {
		return l.Check()
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("cannot read the capabilities of this process: %w", err)
	}
	if have[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		return fmt.Errorf("limits for processes of user %s: want the capability CAP_SYS_RESOURCE", u.name)
	}
	return l.Check()
}

// Check refuses limits that this process may not set or that no child can live with.
func (l ProcessLimits) Check() error {
	if l.Files > 0 && l.Files < minFiles {
		return fmt.Errorf("files=%d: want at least %d", l.Files, minFiles)
	}
	if l.AddressSpace > 0 && l.AddressSpace < minAddressSpace {
		return fmt.Errorf("address-space=%d: want at least %s", l.AddressSpace, formatBytes(minAddressSpace))
	}
	for _, r := range l.resources() {
		var own unix.Rlimit
		if err := unix.Getrlimit(r.id, &own); err != nil {
			return fmt.Errorf("%s: cannot read the limit of this process: %w", r.name, err)
		}
		if r.value > own.Max {
			return fmt.Errorf("%s=%d: want at most %d, the limit of this process", r.name, r.value, own.Max)
		}
	}
	return nil
}

// apply sets the limits of a process.
func (l ProcessLimits) apply(pid int) error {
	for _, r := range l.resources() {
		if r.value == 0 {
			continue
		}
		if err := unix.Prlimit(pid, r.id, &unix.Rlimit{Cur: r.value, Max: r.value}, nil); err != nil {
			return fmt.Errorf("cannot set the limit %s=%d: %w", r.name, r.value, err)
		}
	}
	return nil
}
