package testpage

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Page is a page of documentation.
type Page struct {
	Needs  string // more than the programs of castnet; "": nothing
	Blocks []Block
}

// Block is a fenced block.
type Block struct {
	Language, Text string
	File           string   // where it is saved; "": nowhere
	Stays          bool     // it runs until the page ends
	Prints         []string // the lines of the block behind it, without a language
}

var (
	fence = regexp.MustCompile("(?ms)^(?:<!-- (stays|file \\S+) -->\n)?```([a-z]*)\n(.*?)\n```$")
	needs = regexp.MustCompile(`\A# [^\n]*\n\nNeeds ([^\n]*)`)
)

// Read reads a page, with some texts replaced by others.
func Read(t *testing.T, path string, replace ...string) (p Page) {
	t.Helper()
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	text := strings.NewReplacer(replace...).Replace(string(source))
	if m := needs.FindStringSubmatch(text); m != nil {
		p.Needs = m[1]
	}
	found := fence.FindAllStringSubmatch(text, -1)
	require.Len(t, found, strings.Count(text, "\n```")/2, "%s: a block without an end", path)
	for _, m := range found {
		mark, language, body := m[1], m[2], m[3]
		if language == "" && mark == "" {
			require.NotEmpty(t, p.Blocks, "%s: output without a command:\n%s", path, body)
			last := &p.Blocks[len(p.Blocks)-1]
			require.Empty(t, last.Prints, "%s: two outputs:\n%s", path, body)
			last.Prints = strings.Split(body, "\n")
			continue
		}
		file, _ := strings.CutPrefix(mark, "file ")
		b := Block{Language: language, Text: body, Stays: mark == "stays"}
		if !b.Stays {
			b.File = file
		}
		p.Blocks = append(p.Blocks, b)
	}
	return p
}

// Fragments returns the blocks of Go that are no files.
func (p Page) Fragments() (all []string) {
	for _, b := range p.Blocks {
		if b.Language == "go" && b.File == "" {
			all = append(all, b.Text)
		}
	}
	return all
}

// loose are the parts of an output that differ from run to run, and the patterns for them.
var loose = regexp.MustCompile(`…|-[0-9a-z]{13}\b|\s+|\d+`)

// pattern matches an output line of a page.
func pattern(line string) *regexp.Regexp {
	line = strings.TrimSpace(line)
	isTable := strings.Contains(line, "  ")
	p := loose.ReplaceAllStringFunc(regexp.QuoteMeta(line), func(part string) string {
		switch {
		case part == "…":
			return ".*"
		case strings.TrimSpace(part) == "":
			return `\s+`
		case part[0] == '-':
			return `-[0-9a-z]{13}`
		case isTable:
			return `\d+`
		}
		return part
	})
	return regexp.MustCompile(`(?m)^\s*` + p + `\s*$`)
}
