package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPage_hasTheTableThatAgentsKeep(t *testing.T) { // AGT-13
	var b strings.Builder
	require.NoError(t, write(&b))
	page, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	require.Contains(t, string(page), b.String(), "docs/security.md is old: see go run ./scripts/roles")
}
