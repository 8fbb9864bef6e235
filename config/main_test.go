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

// none is an empty environment.
func none(string) string { return "" }

// joined is the text of several errors, a line each.
func joined(lines ...string) string { return strings.Join(lines, "\n") }
