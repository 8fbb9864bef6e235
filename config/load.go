package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// LoadEnv reads the environment layer. An empty variable counts as unset.
func (c *Config) LoadEnv(getenv func(string) string) error {
	values := layer{}
	var errs []error
	for _, d := range allKeys {
		text := getenv(d.info.Env)
		if text == "" {
			continue
		}
		v, err := d.parseValue("", d.info.Env, text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		values[d] = sourcedValue{v, d.info.Env}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.replaceLayer(LayerEnv, values)
	return nil
}

// Setting is a value in a file.
type Setting struct {
	Text   string
	Source string // file:line:column, for errors and Entries
}

// LoadFile reads the file layer from settings by key name.
func (c *Config) LoadFile(settings map[string]Setting) error {
	values := layer{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s := settings[name]
		d, v, err := parseSetting(s.Source, name, s.Text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		values[d] = sourcedValue{v, s.Source}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.replaceLayer(LayerFile, values)
	return nil
}

// reservedVariables are variables of castnet other than keys: those for procs, and those of
// castnet's tests and benchmarks. A "_" at the end makes a prefix.
var reservedVariables = [...]string{
	"CASTNET_PROC", "CASTNET_PROC_ID", "CASTNET_WORLD", "CASTNET_WORLD_SIZE", "CASTNET_RANK",
	"CASTNET_POINT", "CASTNET_PID", "CASTNET_LOCAL_RANK", "CASTNET_TREE", "CASTNET_FAILPOINT",
	"CASTNET_FAILPOINT_",
	"CASTNET_TEST_", "CASTNET_CLIENT_TEST", "CASTNET_LAUNCH_", "CASTNET_ACTORTEST_",
	"CASTNET_INTEGRATION", "CASTNET_INTEGRATION_", "CASTNET_FAULTS_", "CASTNET_BROWSER_",
	"CASTNET_HISTORY_", "CASTNET_BENCH_",
	"CASTNET_MESH", "CASTNET_ACTOR", "CASTNET_DOOMED", "CASTNET_PIDS",
}

// UnknownVariables finds variables in an environment (as of os.Environ) that look like keys but are
// unknown, probably misspelled. Callers print a warning for each.
func UnknownVariables(environ []string) []string {
	known := make([]string, len(allKeys))
	for i, d := range allKeys {
		known[i] = d.info.Env
	}
	var warnings []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, Prefix) && !slices.Contains(known, name) && !isReserved(name) {
			warnings = append(warnings,
				(&Error{Source: "environment", Key: name, Suggestion: nearest(name, known)}).Error())
		}
	}
	slices.Sort(warnings)
	return slices.Compact(warnings)
}

func isReserved(name string) bool {
	return slices.ContainsFunc(reservedVariables[:], func(n string) bool {
		return name == n || strings.HasSuffix(n, "_") && strings.HasPrefix(name, n)
	})
}
