package main

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

// addFlag adds such a flag.
func addFlag[T any](fs *pflag.FlagSet, into *T, name, kind, usage string, by func(string) (T, error)) {
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

// readCount parses a number of things.
func readCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a whole number, 1 or more")
	}
	return n, nil
}

// readPositiveDuration parses a positive duration.
func readPositiveDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("want a duration of more than 0, such as 500ms or 5s")
	}
	return d, nil
}

// readPercent parses a percentage of a region.
func readPercent(text string) (float64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(v > 0 && v <= 100) {
		return 0, fmt.Errorf("want a percentage of more than 0%% and at most 100%%, such as 10%%")
	}
	return v, nil
}

// readSeed parses the seed of a sample.
func readSeed(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("want a whole number from 0 to 2^64-1")
	}
	return n, nil
}

// readLabel parses the name of a dimension. The mesh is checked later.
func readLabel(text string) (string, error) { return text, subjects.CheckLabel("dimension", text) }

// readChoice parses one of some words.
func readChoice(words ...string) func(string) (string, error) {
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
