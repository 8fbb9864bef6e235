package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	all, err := read(os.DirFS("."))
	if err == nil {
		err = write(os.Stdout, all)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "invariants: %v\n", err)
		os.Exit(1)
	}
}

// invariant is a numbered promise of a package.
type invariant struct {
	family string // such as ACT
	number int
	title  string
	words  int // of the promise itself
	dir    string
	tests  []string
}

func (i *invariant) id() string { return i.family + "-" + strconv.Itoa(i.number) }

var (
	item   = regexp.MustCompile(`^- ([A-Z]+)-([0-9]+) \(([^)]+)\): (.*)`)
	bare   = regexp.MustCompile(`^- [A-Z]+-[0-9]+:`) // without a title
	inName = regexp.MustCompile(`([A-Z]+)([0-9]+)`)
	inText = regexp.MustCompile(`\b([A-Z]+)-([0-9]+)\b`)
)

// read collects the promises of a tree, and the tests that cover them. A number that two promises
// have is an error.
func read(tree fs.FS) ([]*invariant, error) {
	var all []*invariant
	byID := map[string]*invariant{}
	tests := map[string][]string{} // by ID
	err := eachGoFile(tree, func(name string, content []byte) error {
		if strings.HasSuffix(name, "_test.go") {
			return addTests(tests, name, content)
		}
		found, err := promises(path.Dir(name), string(content))
		if err != nil {
			return err
		}
		for _, i := range found {
			if had := byID[i.id()]; had != nil {
				return fmt.Errorf("%s stands in %s and in %s", i.id(), had.dir, i.dir)
			}
			byID[i.id()] = i
			all = append(all, i)
		}
		return nil
	})
	for _, i := range all {
		i.tests = slices.Compact(slices.Sorted(slices.Values(tests[i.id()])))
	}
	slices.SortFunc(all, func(a, b *invariant) int {
		return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.number, b.number))
	})
	return all, err
}

func eachGoFile(tree fs.FS, visit func(name string, content []byte) error) error {
	return fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." &&
			(strings.HasPrefix(e.Name(), ".") ||
				slices.Contains([]string{"testdata", "node_modules", "bin"}, e.Name())):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return visit(name, content)
	})
}

// promises returns those in the line comments of a file. One without a title is an error.
func promises(dir, content string) (found []*invariant, err error) {
	var open *invariant
	for line := range strings.Lines(content) {
		text, isComment := strings.CutPrefix(line, "//")
		text = strings.TrimSpace(text)
		m := item.FindStringSubmatch(text)
		switch {
		case isComment && bare.MatchString(text):
			return nil, fmt.Errorf("%s: no title: %s", dir, text)
		case !isComment, text == "", strings.HasPrefix(text, "- ") && m == nil:
			open = nil
		case m != nil:
			number, _ := strconv.Atoi(m[2])
			open = &invariant{family: m[1], number: number, title: m[3], words: len(strings.Fields(m[4])), dir: dir}
			found = append(found, open)
		case open != nil:
			open.words += len(strings.Fields(text))
		}
	}
	return found, nil
}

// addTests notes which promises the tests of a file name.
func addTests(tests map[string][]string, name string, content []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if !isFunc || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") &&
			!strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		begin, end := f.Pos(), f.End()
		if f.Doc != nil {
			begin = f.Doc.Pos()
		}
		ids := inName.FindAllStringSubmatch(f.Name.Name, -1)
		for _, group := range file.Comments {
			line := files.Position(group.Pos()).Line
			if group.Pos() >= begin && group.Pos() < end || line == files.Position(f.Pos()).Line {
				ids = append(ids, inText.FindAllStringSubmatch(group.Text(), -1)...)
			}
		}
		for _, m := range ids {
			id := m[1] + "-" + m[2]
			tests[id] = append(tests[id], f.Name.Name)
		}
	}
	return nil
}

// write prints the page.
func write(out io.Writer, all []*invariant) error {
	var b strings.Builder
	b.WriteString("# Invariants\n\nThe `doc.go` of a package states these promises in full. `go run " +
		"./scripts/invariants` writes this page.\n")
	family := ""
	for _, i := range all {
		if i.family != family {
			family = i.family
			fmt.Fprintf(&b, "\n## %s · %s\n\n| | title | tests |\n|---|---|---|\n", family, i.dir)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", i.id(), i.title, strings.Join(i.tests, "<br>"))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
