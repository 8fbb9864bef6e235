package lines

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The first words of an answer.
const (
	valuesWord = "values"
	errorWord  = "error"
)

// Request is the line that requests a workload of size n.
func Request(name string, n int) string { return fmt.Sprintf("%s %d", name, n) }

// ParseRequest reads a request. It does not check the name.
func ParseRequest(line string) (name string, n int, err error) {
	name, size, _ := strings.Cut(line, " ")
	n, err = strconv.Atoi(size)
	if err != nil || n < 1 {
		return name, 0, fmt.Errorf("request %q: want how much to do, a number from 1, after the name", line)
	}
	return name, n, nil
}

// Values is the answer that has numbers.
func Values(values ...float64) string {
	words := []string{valuesWord}
	for _, v := range values {
		words = append(words, strconv.FormatFloat(v, 'g', -1, 64))
	}
	return strings.Join(words, " ")
}

// Failure is the answer that says why there are none.
func Failure(err error) string { return errorWord + " " + strconv.Quote(err.Error()) }

// Parse reads an answer: at least one number, or what went wrong as the error.
func Parse(line string) ([]float64, error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case valuesWord:
		if values, ok := parseValues(strings.Fields(rest)); ok {
			return values, nil
		}
	case errorWord:
		if text, err := strconv.Unquote(rest); err == nil {
			return nil, errors.New(text)
		}
	}
	return nil, fmt.Errorf("answer %q: want values and numbers, or error and a quoted text", line)
}

func parseValues(words []string) ([]float64, bool) {
	var values []float64
	for _, word := range words {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, false
		}
		values = append(values, v)
	}
	return values, len(values) > 0
}
