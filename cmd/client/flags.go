package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/castnet-io/castnet/subjects"
)

// read is a flag whose value is read by a function that says what it expected.
type read[T any] struct {
	into *T
	by   func(string) (T, error)
	kind string // what help calls the value
	text string
}

// readFlag adds such a flag.
func readFlag[T any](fs *pflag.FlagSet, into *T, name, kind, usage string, by func(string) (T, error)) {
	fs.Var(&read[T]{into: into, by: by, kind: kind}, name, usage)
}

// Set makes it a flag.
func (r *read[T]) Set(text string) error {
	v, err := r.by(text)
	if err != nil {
		return err
	}
	*r.into, r.text = v, text
	return nil
}

func (r *read[T]) String() string { return r.text }

// Type is what help calls the flag's value.
func (r *read[T]) Type() string { return r.kind }

// readCount reads how many of something there are.
func readCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a whole number, 1 or more")
	}
	return n, nil
}

// readPause reads a time that passes.
func readPause(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("want a duration of more than 0, such as 500ms or 5s")
	}
	return d, nil
}

// readPercent reads a part of a region.
func readPercent(text string) (float64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(v > 0 && v <= 100) {
		return 0, fmt.Errorf("want a percentage of more than 0%% and at most 100%%, such as 10%%")
	}
	return v, nil
}

// readSeed reads what a sample is drawn with.
func readSeed(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("want a whole number from 0 to 2^64-1")
	}
	return n, nil
}

// readLabel reads the name of a dimension; whether the mesh has it is seen when that is found.
func readLabel(text string) (string, error) { return text, subjects.CheckLabel("dimension", text) }

// readOne reads one of some words.
func readOne(words ...string) func(string) (string, error) {
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
