package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// form is the JSON type of a parameter.
type form string

const (
	formText  form = "string"
	formWhole form = "integer"
	formFlag  form = "boolean"
	formNames form = "array" // of texts
	formJSON  form = ""      // any value
)

// Limits of a call.
const (
	maxNames    = 1024             // of a list
	maxTimeout  = 3600             // seconds
	baseTimeout = 120              // seconds, of a tool with the parameter timeout
	readTimeout = 60 * time.Second // of any other tool
	// afterTimeout is the command's time to report its own timeout and to disconnect.
	afterTimeout = 10 * time.Second
)

// place says where the value of a parameter goes.
type place int

const (
	asFlag     place = iota
	asArgument       // after --, in the order of the parameters
	asWindow         // nowhere: the command ends after that many seconds
)

// parameter is one input of a tool.
type parameter struct {
	name     string
	form     form
	about    string
	examples []any
	place    place
	unit     string // behind the number in the flag
	required bool
	repeated bool // a list is one flag for each text; else one flag with commas
	least    int  // of a whole number
	most     int  // of a whole number; 0: unlimited
	preset   int  // of a whole number without a value; 0: left to the command
}

// invocation is one call of a tool, checked.
type invocation struct {
	args     []string
	deadline time.Duration
	window   bool // the deadline is the end that the client wants
}

// read checks the arguments of a call (MCP-2). It builds the command line.
func (t tool) read(arguments json.RawMessage) (invocation, error) {
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(arguments)) > 0 {
		if err := json.Unmarshal(arguments, &given); err != nil {
			return invocation{}, fmt.Errorf("%s: want a JSON object with %s: %w", t.name,
				t.parameterNames(), err)
		}
	}
	for name := range given {
		known := slices.ContainsFunc(t.parameters, func(p parameter) bool { return p.name == name })
		if !known {
			return invocation{}, fmt.Errorf("%s has no parameter %q: want %s", t.name, name,
				t.parameterNames())
		}
	}
	call := invocation{args: slices.Concat(t.command, t.flags), deadline: readTimeout}
	behind := []string{"--"}
	for _, p := range t.parameters {
		values, err := p.read(given[p.name])
		if err != nil {
			return invocation{}, fmt.Errorf("%s: %s: %w", t.name, p.name, err)
		}
		if p.place == asWindow || p.name == "timeout" {
			seconds, _ := strconv.Atoi(values[0]) // a whole number, which has a preset
			call.deadline = time.Duration(seconds) * time.Second
			call.window = p.place == asWindow
		}
		switch p.place {
		case asFlag:
			for _, v := range values {
				call.args = append(call.args, "--"+strings.ReplaceAll(p.name, "_", "-")+"="+v+p.unit)
			}
		case asArgument:
			behind = append(behind, values...)
		}
	}
	if !call.window {
		call.deadline += afterTimeout
	}
	call.args = append(call.args, behind...)
	return call, nil
}

// parameterNames lists the parameters for an error.
func (t tool) parameterNames() string {
	var names []string
	for _, p := range t.parameters {
		names = append(names, p.name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// read returns the values of a parameter; none: it is absent.
func (p parameter) read(raw json.RawMessage) ([]string, error) {
	absent := len(raw) == 0 || p.form != formJSON && string(raw) == "null"
	if absent && p.required {
		return nil, fmt.Errorf("is missing: %s%s", p.about, p.suchAs())
	}
	if absent && p.preset > 0 {
		return []string{strconv.Itoa(p.preset)}, nil
	}
	if absent {
		return nil, nil
	}
	switch p.form {
	case formText:
		return p.readText(raw)
	case formWhole:
		return p.readWhole(raw)
	case formFlag:
		return p.readFlag(raw)
	case formNames:
		return p.readNames(raw)
	}
	return []string{string(raw)}, nil
}

func (p parameter) readText(raw json.RawMessage) ([]string, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, fmt.Errorf("want a string%s, got %s", p.suchAs(), excerpt(raw))
	}
	if p.required && strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("is empty: %s%s", p.about, p.suchAs())
	}
	return []string{text}, checkText(text)
}

func (p parameter) readWhole(raw json.RawMessage) ([]string, error) {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < p.least || p.most > 0 && n > p.most {
		want := fmt.Sprintf("a whole number of %d or more", p.least)
		if p.most > 0 {
			want = fmt.Sprintf("a whole number from %d to %d", p.least, p.most)
		}
		return nil, fmt.Errorf("want %s, got %s", want, excerpt(raw))
	}
	return []string{strconv.Itoa(n)}, nil
}

func (p parameter) readFlag(raw json.RawMessage) ([]string, error) {
	var on bool
	if err := json.Unmarshal(raw, &on); err != nil {
		return nil, fmt.Errorf("want true or false, got %s", excerpt(raw))
	}
	return []string{strconv.FormatBool(on)}, nil
}

func (p parameter) readNames(raw json.RawMessage) ([]string, error) {
	var names []string
	if err := json.Unmarshal(raw, &names); err != nil {
		return nil, fmt.Errorf("want a list of strings%s, got %s", p.suchAs(), excerpt(raw))
	}
	if len(names) > maxNames {
		return nil, fmt.Errorf("want at most %d strings, got %d", maxNames, len(names))
	}
	if p.required && len(names) == 0 {
		return nil, fmt.Errorf("is empty: %s%s", p.about, p.suchAs())
	}
	for _, name := range names {
		if err := checkText(name); err != nil {
			return nil, err
		}
		if name == "" || !p.repeated && strings.Contains(name, ",") {
			return nil, fmt.Errorf("want one name in each string, got %q", name)
		}
	}
	if p.place == asArgument || p.repeated || len(names) == 0 {
		return names, nil
	}
	return []string{strings.Join(names, ",")}, nil
}

// checkText refuses a byte that no command line can have.
func checkText(text string) error {
	if strings.ContainsRune(text, 0) {
		return errors.New("want a string without zero bytes")
	}
	return nil
}

// suchAs is the first example, for an error.
func (p parameter) suchAs() string {
	if len(p.examples) == 0 {
		return ""
	}
	text, err := json.Marshal(p.examples[0])
	if err != nil {
		return ""
	}
	return ", such as " + string(text)
}

// excerpt is the beginning of a value, for an error.
func excerpt(raw json.RawMessage) string {
	const most = 60
	text := []rune(string(raw))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// schema is the JSON schema of a tool's arguments.
func (t tool) schema() json.RawMessage {
	var properties bytes.Buffer // in the order of the parameters, which a map would lose
	required := []string{}
	for i, p := range t.parameters {
		if i > 0 {
			properties.WriteByte(',')
		}
		fmt.Fprintf(&properties, "%s:%s", mustJSON(p.name), p.schema())
		if p.required {
			required = append(required, p.name)
		}
	}
	return fmt.Appendf(nil, `{"type":"object","properties":{%s},"required":%s,`+
		`"additionalProperties":false,"examples":[%s]}`, &properties, mustJSON(required), t.example)
}

func (p parameter) schema() []byte {
	s := struct {
		Type        form   `json:"type,omitempty"`
		Description string `json:"description"`
		Items       any    `json:"items,omitempty"`
		Minimum     *int   `json:"minimum,omitempty"`
		Maximum     int    `json:"maximum,omitempty"`
		MaxItems    int    `json:"maxItems,omitempty"`
		Default     int    `json:"default,omitempty"`
		Examples    []any  `json:"examples,omitempty"`
	}{Type: p.form, Description: p.about, Maximum: p.most, Default: p.preset, Examples: p.examples}
	switch p.form {
	case formWhole:
		s.Minimum = &p.least
	case formNames:
		s.Items = map[string]string{"type": string(formText)}
		s.MaxItems = maxNames
	}
	return mustJSON(s)
}

// mustJSON encodes a constant of this package.
func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
