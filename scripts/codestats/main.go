package main

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Stdout, os.DirFS(".")); err != nil {
		fmt.Fprintf(os.Stderr, "codestats: %v\n", err)
		os.Exit(1)
	}
}

// count counts the packages of a tree by folder, and their tests.
func count(tree fs.FS) (packages map[string]*stats, tests stats, err error) {
	packages = map[string]*stats{}
	err = fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name != "." && (strings.HasPrefix(e.Name(), ".") ||
				slices.Contains([]string{"testdata", "node_modules", "bin"}, e.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		of := packages[dir]
		switch {
		case strings.HasSuffix(name, "_test.go"):
			of = &tests
		case of == nil:
			of = &stats{}
			packages[dir] = of
		}
		return of.addFile(name, content)
	})
	return packages, tests, err
}

func run(out io.Writer, tree fs.FS) error {
	packages, tests, err := count(tree)
	if err != nil {
		return err
	}
	var product, other stats
	var crowded []string
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "files\tcode\tcomments %\tfunctions\tmedian\tp90\tlongest\tgolf/1,000\t  package")
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		s := packages[dir]
		printRow(table, dir, *s)
		if isProduct(dir) {
			product.add(*s)
		} else {
			other.add(*s)
		}
		for _, name := range slices.Sorted(maps.Keys(s.methods)) {
			if n := s.methods[name]; n > manyMethods {
				crowded = append(crowded, fmt.Sprintf("%s.%s: %d methods", dir, name, n))
			}
		}
	}
	printRow(table, "product", product)
	printRow(table, "benchmarks, examples, scripts", other)
	printRow(table, "tests", tests)
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ntypes with more than %d methods:\n", manyMethods)
	for _, line := range crowded {
		fmt.Fprintln(out, "  "+line)
	}
	golf := func(n int) float64 { return perThousand(n, product.code) }
	_, err = fmt.Fprintf(out, "\ngolf in 1,000 lines of the product:\n"+
		"  if assigns an outer variable  %.2f\n  if calls or increments        %.2f\n"+
		"  switch of one or two cases    %.2f\n  assignment of three values    %.2f\n"+
		"\nlines of the product over %d columns, or %d in comments: %d\n",
		golf(product.golf.assigning), golf(product.golf.sideEffect), golf(product.golf.smallSwitch),
		golf(product.golf.tuple), maxCodeColumns, maxCommentColumns, len(product.wide))
	return err
}

func printRow(table io.Writer, name string, s stats) {
	fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t  %s\n", s.files, s.code,
		100*s.comments/max(s.code+s.comments, 1),
		len(s.functions), s.length(50), s.length(90), s.length(100), perThousand(s.golf.total(), s.code), name)
}

func perThousand(n, lines int) float64 { return 1000 * float64(n) / float64(max(lines, 1)) }

// isProduct reports whether a package is what users run or import.
func isProduct(dir string) bool {
	first, _, _ := strings.Cut(dir, "/")
	switch {
	case slices.Contains([]string{".", "bench", "examples", "scripts", "tools", "integration"}, first):
		return false
	case strings.HasPrefix(path.Base(dir), "test"), strings.HasSuffix(path.Base(dir), "test"):
		return false // rigs of tests
	}
	return true
}
