package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	manyMethods = 30
	fewCases    = 3
	manyValues  = 3

	maxCodeColumns    = 110
	maxCommentColumns = 100
)

// stats are the figures of a package, or of several.
type stats struct {
	files, code, comments int
	functions             []int          // their lengths in lines
	methods               map[string]int // by type
	golf                  golf
	wide                  []string // lines with too many columns, as file:line
}

// golf counts statements that do more than they show.
type golf struct{ assigning, sideEffect, smallSwitch, tuple int }

func (g golf) total() int { return g.assigning + g.sideEffect + g.smallSwitch + g.tuple }

// addFile counts a Go file.
func (s *stats) addFile(name string, content []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil {
		return err
	}
	s.files++
	s.addLines(files, file, string(content))
	if s.methods == nil {
		s.methods = map[string]int{}
	}
	lines := func(n ast.Node) int { return files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1 }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			s.functions = append(s.functions, lines(n))
			if n.Recv != nil {
				s.methods[receiver(n.Recv.List[0].Type)]++
			}
		case *ast.IfStmt:
			s.golf.addIf(n)
		case *ast.SwitchStmt:
			if n.Tag == nil && len(n.Body.List) < fewCases {
				s.golf.smallSwitch++
			}
		case *ast.AssignStmt:
			if len(n.Lhs) >= manyValues && len(n.Rhs) == len(n.Lhs) {
				s.golf.tuple++
			}
		}
		return true
	})
	return nil
}

func (g *golf) addIf(n *ast.IfStmt) {
	switch init := n.Init.(type) {
	case *ast.AssignStmt:
		if init.Tok != token.DEFINE {
			g.assigning++
		}
	case *ast.ExprStmt, *ast.IncDecStmt:
		g.sideEffect++
	}
}

// addLines counts lines of code and of comments; a line with both is code.
func (s *stats) addLines(files *token.FileSet, file *ast.File, content string) {
	commented := map[int]bool{} // lines that begin within a comment
	for _, group := range file.Comments {
		for _, c := range group.List {
			from, to := files.Position(c.Pos()), files.Position(c.End())
			for line := from.Line; line <= to.Line; line++ {
				commented[line] = true
			}
		}
	}
	number := 0
	for text := range strings.Lines(content) {
		number++
		line := strings.TrimSpace(text)
		columns := maxCodeColumns
		if commented[number] && !hasCode(line) {
			columns = maxCommentColumns
		}
		// A line with a raw string, such as a struct tag, cannot be broken.
		if utf8.RuneCountInString(strings.TrimRight(text, "\n")) > columns && !strings.Contains(text, "`") {
			s.wide = append(s.wide, fmt.Sprintf("%s:%d", files.Position(file.Pos()).Filename, number))
		}
		switch {
		case line == "":
		case commented[number] && !hasCode(line):
			s.comments++
		default:
			s.code++
		}
	}
}

// hasCode reports whether a line with a comment has code before it. Lines within a block comment
// have none.
func hasCode(line string) bool {
	at := strings.Index(line, "//")
	if block := strings.Index(line, "/*"); block >= 0 && (at < 0 || block < at) {
		at = block
	}
	return at > 0
}

// receiver is the name of the type of a method.
func receiver(t ast.Expr) string {
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}

func (s *stats) add(o stats) {
	s.files += o.files
	s.code += o.code
	s.comments += o.comments
	s.functions = append(s.functions, o.functions...)
	s.golf.assigning += o.golf.assigning
	s.golf.sideEffect += o.golf.sideEffect
	s.golf.smallSwitch += o.golf.smallSwitch
	s.golf.tuple += o.golf.tuple
	s.wide = append(s.wide, o.wide...)
}

// length returns the length of the function at a percentile; 100 is the longest one.
func (s *stats) length(percentile int) int {
	if len(s.functions) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.functions))
	return sorted[(len(sorted)-1)*percentile/100]
}
