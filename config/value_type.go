package config

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// valueType is the syntax and range of a key's values.
type valueType[T Value] struct {
	name, want, bounds string
	parse              func(string) (T, bool)
	format             func(T) string
	inBounds           func(T) bool
}

// bounded returns the type of values between a minimum and a maximum, optionally with 0 below.
func bounded[T interface {
	Value
	cmp.Ordered
}](
	name, want string, parse func(string) (T, bool), format func(T) string, least, most T, zero string,
) valueType[T] {
	var none T
	bounds := fmt.Sprintf("%s to %s", format(least), format(most))
	if zero != "" {
		bounds += fmt.Sprintf(", or 0 for %s", zero)
	}
	return valueType[T]{
		name: name, want: want, bounds: bounds, parse: parse, format: format,
		inBounds: func(v T) bool { return v >= least && v <= most || zero != "" && v == none },
	}
}

func parseDuration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// formatDuration formats without trailing zero units: 2m, not 2m0s.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func parseInt(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil
}

func formatInt(n int) string { return strconv.Itoa(n) }

// parseBool accepts the words of shells and YAML.
func parseBool(text string) (on, ok bool) {
	switch strings.ToLower(text) {
	case "true", "on", "yes", "1":
		return true, true
	case "false", "off", "no", "0":
		return false, true
	}
	return false, false
}

func formatBool(b bool) string { return strconv.FormatBool(b) }

// units are the units of sizes, largest first.
var units = [...]struct {
	name  string
	bytes Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String formats the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return "0"
}

// ParseSize parses a size such as 64MiB. The unit is optional.
func ParseSize(text string) (Size, bool) {
	unit := Size(1)
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = number, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		return 0, false
	}
	return Size(n) * unit, true
}
