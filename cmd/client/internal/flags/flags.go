package flags

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/castnet-io/castnet/subjects"
)

// funcFlag is a flag with a parse function, whose errors name the expected form.
type funcFlag[T any] struct {
	target *T
	parse  func(string) (T, error)
	kind   string // value name in the help
	text   string
}

// Add adds such a flag.
func Add[T any](fs *pflag.FlagSet, into *T, name, kind, usage string, by func(string) (T, error)) {
	fs.Var(&funcFlag[T]{target: into, parse: by, kind: kind}, name, usage)
}

// Set implements pflag.Value.
func (r *funcFlag[T]) Set(text string) error {
	v, err := r.parse(text)
	if err != nil {
		return err
	}
	*r.target = v
	r.text = text
	return nil
}

func (r *funcFlag[T]) String() string { return r.text }

// Type returns the value name in the help.
func (r *funcFlag[T]) Type() string { return r.kind }

// Count parses a number of things.
func Count(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a whole number, 1 or more")
	}
	return n, nil
}

// PositiveDuration parses a positive duration.
func PositiveDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("want a duration of more than 0, such as 500ms or 5s")
	}
	return d, nil
}

// Since parses a time, or a duration before now.
func Since(text string) (time.Time, error) {
	if d, err := PositiveDuration(text); err == nil {
		return time.Now().Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("want a duration such as 10m, or a time such as 2026-11-26T09:30:00Z")
	}
	return at, nil
}

// Percent parses a percentage of a region.
func Percent(text string) (float64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(v > 0 && v <= 100) {
		return 0, fmt.Errorf("want a percentage of more than 0%% and at most 100%%, such as 10%%")
	}
	return v, nil
}

// Seed parses the seed of a sample.
func Seed(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("want a whole number from 0 to 2^64-1")
	}
	return n, nil
}

// Dimension parses the name of a dimension. The mesh is checked later.
func Dimension(text string) (string, error) { return text, subjects.CheckLabel("dimension", text) }

// Choice parses one of some words.
func Choice(words ...string) func(string) (string, error) {
	return func(text string) (string, error) {
		for _, w := range words {
			if text == w {
				return text, nil
			}
		}
		if last := len(words) - 1; last > 0 {
			return "", fmt.Errorf("want %s or %s", strings.Join(words[:last], ", "), words[last])
		}
		return "", fmt.Errorf("want %s", words[0])
	}
}

// Concurrency parses the number of concurrent stops.
func Concurrency(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 256 {
		return 0, fmt.Errorf("want a whole number from 1 to 256")
	}
	return n, nil
}

// Labels parses required labels such as zone=a,disk=nvme.
func Labels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || subjects.CheckLabel("key", key) != nil {
			return nil, fmt.Errorf("want KEY=VALUE, several with commas between, such as zone=a,disk=nvme")
		}
		labels[key] = value
	}
	return labels, nil
}
