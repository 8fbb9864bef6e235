package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
)

// hostLabels parses the values of --host-label. Keys are unique.
func hostLabels(said []string) (map[string]string, error) {
	var labels map[string]string
	for _, s := range said {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, cli.Usagef("--host-label %q: want KEY=VALUE, such as zone=a", s)
		}
		if err := subjects.CheckLabel("key", key); err != nil {
			return nil, cli.Usagef("--host-label %q: %w", s, err)
		}
		if before, twice := labels[key]; twice {
			return nil, cli.Usagef("--host-label %q: %s is %q already", s, key, before)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels, nil
}

// formatLabels formats labels in flag syntax.
func formatLabels(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%s", key, labels[key]))
	}
	return strings.Join(parts, " ")
}
