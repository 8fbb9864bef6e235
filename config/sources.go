package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// From reads the environment layer. A variable that is empty says nothing.
func (c *Config) From(getenv func(string) string) error {
	values := layer{}
	var errs []error
	for _, d := range all {
		text := getenv(d.info.Env)
		if text == "" {
			continue
		}
		v, err := d.read("", d.info.Env, text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		values[d] = chosen{v, d.info.Env}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.replace(LayerEnv, values)
	return nil
}

// Setting is what a file says about one key.
type Setting struct {
	Text  string
	Place string // for errors and Entries: file:line:column
}

// FromFile reads the file layer from what a file says, by name of the key.
func (c *Config) FromFile(settings map[string]Setting) error {
	values := layer{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s := settings[name]
		d, v, err := lookUp(s.Place, name, s.Text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		values[d] = chosen{v, s.Place}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.replace(LayerFile, values)
	return nil
}

// notKeys are the variables of castnet that are no keys: what a host tells its procs, and what
// castnet's own tests and benchmarks tell the processes they start. A "_" at the end stands for all
// that begin so.
var notKeys = [...]string{
	"CASTNET_PROC", "CASTNET_PROC_ID", "CASTNET_WORLD", "CASTNET_WORLD_SIZE", "CASTNET_RANK", "CASTNET_PID", "CASTNET_LOCAL_RANK", "CASTNET_TREE", "CASTNET_FAILPOINT", "CASTNET_FAILPOINT_",
	"CASTNET_TEST_", "CASTNET_CLIENT_TEST", "CASTNET_LAUNCH_", "CASTNET_ACTORTEST_",
	"CASTNET_INTEGRATION", "CASTNET_INTEGRATION_", "CASTNET_FAULTS_", "CASTNET_HISTORY_", "CASTNET_BENCH_",
	"CASTNET_MESH", "CASTNET_ACTOR", "CASTNET_DOOMED", "CASTNET_PIDS",
}

// Strangers finds the variables of an environment (as of os.Environ) that look like keys and are
// none, most likely for a slip of the pen: a warning for each, to be shown.
func Strangers(environ []string) []string {
	known := make([]string, len(all))
	for i, d := range all {
		known[i] = d.info.Env
	}
	var warnings []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, Prefix) && !slices.Contains(known, name) && !isNoKey(name) {
			warnings = append(warnings, (&Error{Place: "environment", Key: name, Near: nearest(name, known)}).Error())
		}
	}
	slices.Sort(warnings)
	return slices.Compact(warnings)
}

func isNoKey(name string) bool {
	return slices.ContainsFunc(notKeys[:], func(n string) bool {
		return name == n || strings.HasSuffix(n, "_") && strings.HasPrefix(name, n)
	})
}
