package local

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The first words of a reply.
const (
	valueWord = "value"
	errorWord = "error"
)

// Request is the line that asks for a workload with n to do.
func Request(name string, n int) string { return fmt.Sprintf("%s %d", name, n) }

func parseRequest(line string) (Workload, int, error) {
	name, size, _ := strings.Cut(line, " ")
	w, ok := Find(name)
	if !ok {
		return w, 0, fmt.Errorf("request %q: there is no workload %q", line, name)
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 {
		return w, 0, fmt.Errorf("request %q: want how much to do, a number from 1, after the name", line)
	}
	return w, n, nil
}

func valueReply(v float64) string { return valueWord + " " + strconv.FormatFloat(v, 'g', -1, 64) }

// errorReply is one line, whatever the error says.
func errorReply(err error) string { return errorWord + " " + strconv.Quote(err.Error()) }

// ParseReply reads the line that answers a request: a value, or what went wrong as the error.
func ParseReply(line string) (float64, error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case valueWord:
		if v, err := strconv.ParseFloat(rest, 64); err == nil {
			return v, nil
		}
	case errorWord:
		if text, err := strconv.Unquote(rest); err == nil {
			return 0, errors.New(text)
		}
	}
	return 0, fmt.Errorf("reply %q: want value and a number, or error and a quoted text", line)
}
