package main

import (
	"regexp"
	"strings"
)

const (
	longSentence  = 30 // words; a sentence with more counts as long
	shortSentence = 3  // words; one with fewer is no sentence
)

var (
	relativeWords       = words("which that who whom whose what where whoever whatever")
	forbiddenBeginnings = words("Who Whoever Whose What Nobody")

	inlineCode  = regexp.MustCompile("`[^`]*`")
	link        = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	emphasis    = regexp.MustCompile(`[*_]`)
	emptyLines  = regexp.MustCompile(`\n\s*\n`)
	sentenceEnd = regexp.MustCompile(`[.!?]\s+`)
	letters     = regexp.MustCompile(`[A-Za-z]{2}`)
	word        = regexp.MustCompile(`[A-Za-z0-9'’-]+`)
	htmlComment = regexp.MustCompile(`(?s)<!--.*?-->`)
	listItem    = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.)\s+(.*)`)
	lineComment = regexp.MustCompile(`^\s*// ?(.*)`)
	commentItem = regexp.MustCompile(`^\s*-\s+(?:[A-Z]+-[0-9]+:?)?`)
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// sentences splits prose into sentences. Inline code counts as one word, a link as its text.
func sentences(text string) (all []string) {
	text = inlineCode.ReplaceAllString(text, "x")
	text = link.ReplaceAllString(text, "$1")
	text = emphasis.ReplaceAllString(text, "")
	for _, paragraph := range emptyLines.Split(text, -1) {
		rest := strings.Join(strings.Fields(paragraph), " ")
		for rest != "" {
			sentence := rest
			if end := sentenceEnd.FindStringIndex(rest); end != nil {
				sentence, rest = rest[:end[0]+1], rest[end[1]:]
			} else {
				rest = ""
			}
			if letters.MatchString(sentence) {
				all = append(all, sentence)
			}
		}
	}
	return all
}

// markdownSentences are the sentences of a page, without code blocks, tables and headings.
func markdownSentences(page string) []string {
	page = htmlComment.ReplaceAllString(page, "")
	var lines []string
	fence := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case fence != "":
			if strings.HasPrefix(line, fence) {
				fence = ""
			}
		case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"):
			fence = line[:3]
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "    "),
			strings.HasPrefix(strings.TrimSpace(line), "|"):
			lines = append(lines, "")
		case listItem.MatchString(line):
			lines = append(lines, "", listItem.FindStringSubmatch(line)[1])
		default:
			lines = append(lines, line)
		}
	}
	return sentences(strings.Join(lines, "\n"))
}

// commentSentences are the sentences of the line comments of a Go file, without code and
// directives.
func commentSentences(file string) (all []string) {
	var block []string
	end := func() {
		all = append(all, sentences(strings.Join(block, "\n"))...)
		block = nil
	}
	for line := range strings.Lines(file) {
		m := lineComment.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case m == nil || strings.HasPrefix(m[1], "go:") || strings.HasPrefix(m[1], "nolint"):
			end()
		case strings.HasPrefix(m[1], "\t"):
			block = append(block, "")
		default:
			block = append(block, strings.Trim(commentItem.ReplaceAllString(m[1], "\n\n"), " "))
		}
	}
	end()
	return all
}

// figures count the sentences of a text.
type figures struct {
	sentences, words, long, relative, forbidden int
}

func (f *figures) add(g figures) {
	f.sentences += g.sentences
	f.words += g.words
	f.long += g.long
	f.relative += g.relative
	f.forbidden += g.forbidden
}

// measure counts sentences. Those of fewer than three words count only when their beginning is
// forbidden.
func measure(all []string) (f figures) {
	for _, s := range all {
		long, forbidden := offends(s)
		if forbidden {
			f.forbidden++
		}
		found := word.FindAllString(s, -1)
		if len(found) < shortSentence {
			continue
		}
		f.sentences++
		f.words += len(found)
		if long {
			f.long++
		}
		for _, w := range found {
			if relativeWords[strings.ToLower(w)] {
				f.relative++
			}
		}
	}
	return f
}

// offends reports whether a sentence is long, and whether its beginning is forbidden. A question
// may begin with any word.
func offends(sentence string) (long, forbidden bool) {
	found := word.FindAllString(sentence, -1)
	if len(found) == 0 {
		return false, false
	}
	return len(found) > longSentence, forbiddenBeginnings[found[0]] && !strings.HasSuffix(sentence, "?")
}

// mean is the words of a sentence.
func (f figures) mean() float64 { return ratio(f.words, f.sentences) }

// longShare is the sentences over 30 words, of a hundred.
func (f figures) longShare() float64 { return 100 * ratio(f.long, f.sentences) }

// relativeShare is the relative words, of a hundred.
func (f figures) relativeShare() float64 { return 100 * ratio(f.relative, f.words) }

func ratio(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
