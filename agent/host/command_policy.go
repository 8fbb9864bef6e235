package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/agent"
)

// resolveCommand decides which program a command runs here, or refuses it (HOST-2).
func (o Options) resolveCommand(c agent.Command, self string) (path string, args []string, err error) {
	if c.Path == agent.Builtin {
		if o.Builtin == nil {
			return "", nil, fmt.Errorf("command %q: this host has no built-in actors", c.Path)
		}
		return self, append(slices.Clone(o.Builtin), c.Args...), nil
	}
	if strings.ContainsRune(c.Path, 0) {
		return "", nil, fmt.Errorf("command %q: want no NUL byte", c.Path)
	}
	if !filepath.IsAbs(c.Path) {
		return "", nil, fmt.Errorf("command %q: want an absolute path on the host", c.Path)
	}
	path, err = filepath.EvalSymlinks(c.Path)
	if err != nil {
		return "", nil, fmt.Errorf("command %q: %w", c.Path, err)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("command %q: %w", c.Path, err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", nil, fmt.Errorf("command %q: want an executable file", c.Path)
	case path == self, o.isAllowed(path), o.isAllowedCommand(path, c), o.AllowUser && isOwnFile(info):
		return path, c.Args, nil
	}
	return "", nil, fmt.Errorf("command %q is not allowed on this host: start hostd with --allow %s to run it",
		c.Path, path)
}

// isAllowed reports whether the list names the path or a directory above it.
func (o Options) isAllowed(path string) bool {
	return slices.ContainsFunc(o.Allow, func(a string) bool {
		real, err := filepath.EvalSymlinks(a)
		return err == nil && (path == real || strings.HasPrefix(path, strings.TrimSuffix(real, "/")+"/"))
	})
}

// isAllowedCommand reports whether the list has the program with the first arguments of the
// command. The command must not have an Arg0, which some programs take as their first argument.
func (o Options) isAllowedCommand(path string, c agent.Command) bool {
	return c.Arg0 == "" && slices.ContainsFunc(o.AllowCommands, func(a []string) bool {
		real, err := filepath.EvalSymlinks(a[0])
		fixed := a[1:]
		return err == nil && path == real && len(c.Args) >= len(fixed) && slices.Equal(c.Args[:len(fixed)], fixed)
	})
}

// userEnv returns the base environment of procs, with the home and name of their user.
func (o Options) userEnv() []string {
	return append(baseEnv(os.Getenv), o.procUser.Env()...)
}

// baseEnv returns the variables that every proc inherits from the host: search path, scratch space
// and locale. It has no secrets and nothing that affects program loading.
func baseEnv(getenv func(string) string) []string {
	var env []string
	for _, key := range []string{"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "USER"} {
		if v := getenv(key); v != "" {
			env = append(env, key+"="+v)
		}
	}
	return env
}

// rankEnv returns the variables that tell a proc its place in the mesh before it connects.
func rankEnv(boot agent.Bootstrap) []string {
	m := boot.Mesh
	local := boot.Rank % m.PerHost
	var env []string
	if m.World != nil {
		local = boot.Rank - m.World.First
		env = append(env, agent.EnvWorld+"="+m.World.World)
	}
	if point, err := m.Extent.Point(boot.Rank); err == nil {
		env = append(env, agent.EnvPoint+"="+point.String())
	}
	return append(env,
		agent.EnvProc+"="+boot.ProcID().String(),
		agent.EnvRank+"="+strconv.Itoa(boot.Rank),
		agent.EnvLocalRank+"="+strconv.Itoa(local),
		agent.EnvWorldSize+"="+strconv.Itoa(m.Extent.NumRanks()),
	)
}

// deniedEnv reports whether a variable makes a program load or run other code than its own, or
// weakens the Go runtime: an allowed program would no longer be what the operator allowed.
func deniedEnv(key string) bool {
	return strings.HasPrefix(key, "LD_") || strings.HasPrefix(key, "DYLD_") ||
		strings.HasPrefix(key, "BASH_FUNC_") || slices.Contains([]string{
		"PATH", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "PS4", "ZDOTDIR", "GCONV_PATH", "GLIBC_TUNABLES",
		"GODEBUG", "GOTRACEBACK", "OPENSSL_CONF", "OPENSSL_MODULES", "LUA_INIT",
		"PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT",
		"PERL5LIB", "PERL5OPT", "PERL5DB", "RUBYLIB", "RUBYOPT", "NODE_OPTIONS", "NODE_PATH",
		"CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS",
	}, key)
}

// maxEnvEntry is the greatest length of a KEY=value on Linux.
const maxEnvEntry = 128<<10 - 1

// checkEnv refuses variables that affect program loading. Values may be secrets, so errors name
// keys only.
func checkEnv(env []string) error {
	for i, e := range env {
		key, value, ok := strings.Cut(e, "=")
		switch {
		case !ok || key == "":
			return fmt.Errorf("environment entry %d: want KEY=value", i+1)
		case strings.ContainsRune(key, 0) || strings.ContainsRune(value, 0):
			return fmt.Errorf("environment entry %d, %q: want no NUL byte", i+1, key)
		case len(e) > maxEnvEntry:
			return fmt.Errorf("environment entry %d: %.40q has %d bytes: want at most %d",
				i+1, key, len(e), maxEnvEntry)
		case deniedEnv(key):
			return fmt.Errorf("environment entry %d: %s changes how programs are loaded, which a host does not allow",
				i+1, key)
		}
	}
	return nil
}

// checkArgs refuses arguments that no process can receive.
func checkArgs(args []string) error {
	for i, a := range args {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("argument %d: want no NUL byte", i+1)
		}
	}
	return nil
}
