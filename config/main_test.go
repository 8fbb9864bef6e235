package config_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vars is an environment.
type vars map[string]string

func (v vars) get(name string) string { return v[name] }

// none is an environment that says nothing.
func none(string) string { return "" }

// joined is what several errors say, a line each.
func joined(lines ...string) string { return strings.Join(lines, "\n") }
