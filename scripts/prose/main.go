package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	list := flag.Bool("list", false, "print the sentences that are long or have a forbidden beginning")
	flag.Parse()
	if err := run(os.Stdout, os.DirFS("."), flag.Args(), *list); err != nil {
		fmt.Fprintf(os.Stderr, "prose: %v\n", err)
		os.Exit(1)
	}
}

// text is the prose of a markdown file or of a Go package.
type text struct {
	name      string
	kind      kind
	sentences []string
}

type kind int

const (
	pages        kind = iota // README, ARCHITECTURE, HACKING and docs/, without decisions
	records                  // other markdown
	comments                 // of Go files
	testComments             // of Go tests
)

func (k kind) String() string {
	return [...]string{"pages", "other markdown", "Go comments", "comments of tests"}[k]
}

// read collects the prose of a tree, sorted by name. With names it takes the files and folders
// below these alone.
func read(tree fs.FS, names []string) ([]text, error) {
	byName := map[string]*text{}
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			if name != "." && (strings.HasPrefix(e.Name(), ".") ||
				slices.Contains([]string{"testdata", "node_modules", "bin"}, e.Name())) {
				return fs.SkipDir
			}
			return nil
		case len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return below(name, n) }):
			return nil
		}
		owner, k, split := name, records, markdownSentences
		switch {
		case strings.HasSuffix(name, ".md") && isPage(name):
			k = pages
		case strings.HasSuffix(name, ".md"):
		case strings.HasSuffix(name, "_test.go"):
			owner, k, split = path.Dir(name)+" (tests)", testComments, commentSentences
		case strings.HasSuffix(name, ".go"):
			owner, k, split = path.Dir(name), comments, commentSentences
		default:
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if byName[owner] == nil {
			byName[owner] = &text{name: owner, kind: k}
		}
		byName[owner].sentences = append(byName[owner].sentences, split(string(content))...)
		return nil
	})
	var all []text
	for _, t := range byName {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b text) int { return cmp.Compare(a.name, b.name) })
	return all, err
}

// below reports whether a file is that of the name, or in its folder.
func below(file, name string) bool {
	name = filepath.ToSlash(filepath.Clean(name))
	return name == "." || file == name || strings.HasPrefix(file, name+"/")
}

// isPage reports whether a markdown file is one that users read.
func isPage(name string) bool {
	switch name {
	case "README.md", "ARCHITECTURE.md", "HACKING.md":
		return true
	}
	return path.Dir(name) == "docs"
}

// total sums the figures of a kind.
func total(all []text, k kind) (sum figures) {
	for _, t := range all {
		if t.kind == k {
			sum.add(measure(t.sentences))
		}
	}
	return sum
}

func run(out io.Writer, tree fs.FS, names []string, list bool) error {
	all, err := read(tree, names)
	if err != nil {
		return err
	}
	if list {
		printOffenders(out, all)
		return nil
	}
	slices.SortStableFunc(all, func(a, b text) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind),
			-cmp.Compare(measure(a.sentences).relativeShare(), measure(b.sentences).relativeShare()))
	})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "sentences\tmean words\tover 30\trelative/100\tforbidden\t  text")
	row := func(name string, f figures) {
		fmt.Fprintf(table, "%d\t%.1f\t%.1f%%\t%.2f\t%d\t  %s\n", f.sentences, f.mean(), f.longShare(),
			f.relativeShare(), f.forbidden, name)
	}
	for _, t := range all {
		row(t.name, measure(t.sentences))
	}
	for k := pages; k <= testComments; k++ {
		row("all "+k.String(), total(all, k))
	}
	return table.Flush()
}

func printOffenders(out io.Writer, all []text) {
	for _, t := range all {
		for _, s := range t.sentences {
			long, forbidden := offends(s)
			switch {
			case forbidden:
				fmt.Fprintf(out, "%s: forbidden beginning: %s\n", t.name, s)
			case long:
				fmt.Fprintf(out, "%s: %d words: %s\n", t.name, len(word.FindAllString(s, -1)), s)
			}
		}
	}
}
