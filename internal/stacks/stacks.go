package stacks

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/castnet-io/castnet/shape"
)

// Stack is a stack with the goroutines that have it.
type Stack struct {
	Region     string   `json:"region"` // of the ranks
	Ranks      []int    `json:"ranks"`
	Goroutines int64    `json:"goroutines"` // of all ranks
	Frames     []string `json:"frames"`     // function file:line; the innermost first
	own        bool     // code of castnet, of its libraries or of Go only
}

const (
	module = "github.com/castnet-io/castnet/"
	// procMain is where the main goroutine of a proc waits, below the program's own main.
	procMain = module + "agent/proc.Main"
)

// isOwn reports whether a function is of castnet, of NATS or of Go, so that every proc runs it.
// Go's packages have no dot in the first element of their path; main is the program's. The actors
// and examples of castnet are programs, too.
func isOwn(function string) bool {
	if rest, ok := strings.CutPrefix(function, module); ok {
		return !strings.HasPrefix(rest, "internal/builtin.") && !strings.HasPrefix(rest, "examples/") &&
			!strings.HasPrefix(rest, "cmd/")
	}
	path, _, deep := strings.Cut(function, "/")
	if !deep {
		path, _, _ = strings.Cut(function, ".")
	}
	return strings.HasPrefix(function, "github.com/nats-io/") || !strings.Contains(path, ".") && path != "main"
}

// Group groups the goroutine profiles of ranks by stack: stacks with code of the program first,
// then those of most goroutines. Without all it leaves out stacks of castnet and Go alone.
func Group(base shape.Extent, profiles map[int][]byte, all bool) ([]Stack, error) {
	byFrames := map[string]*Stack{}
	ranks := make([]int, 0, len(profiles))
	for rank := range profiles {
		ranks = append(ranks, rank)
	}
	slices.Sort(ranks)
	for _, rank := range ranks {
		p, err := profile.Parse(bytes.NewReader(profiles[rank]))
		if err != nil {
			return nil, fmt.Errorf("cannot read the stacks of rank %d: %w", rank, err)
		}
		for _, sample := range p.Sample {
			add(byFrames, rank, sample)
		}
	}
	var out []Stack
	for _, s := range byFrames {
		if s.own && !all {
			continue
		}
		s.Region = shape.Describe(base, s.Ranks)
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Stack) int {
		if a.own != b.own {
			if a.own {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(b.Goroutines, a.Goroutines), slices.Compare(a.Frames, b.Frames))
	})
	return out, nil
}

func add(byFrames map[string]*Stack, rank int, sample *profile.Sample) {
	var frames []string
	own, waits := true, false
	for _, at := range sample.Location {
		for _, line := range at.Line {
			if line.Function == nil {
				continue
			}
			name := line.Function.Name
			own = own && isOwn(name)
			waits = waits || strings.HasPrefix(name, procMain)
			frames = append(frames, fmt.Sprintf("%s %s:%d", name, filepath.Base(line.Function.Filename), line.Line))
		}
	}
	key := strings.Join(frames, "\n")
	s := byFrames[key]
	if s == nil {
		s = &Stack{Frames: frames, own: own || waits}
		byFrames[key] = s
	}
	if len(sample.Value) > 0 {
		s.Goroutines += sample.Value[0]
	}
	if len(s.Ranks) == 0 || s.Ranks[len(s.Ranks)-1] != rank {
		s.Ranks = append(s.Ranks, rank)
	}
}

// Print prints stacks as text.
func Print(w io.Writer, all []Stack) error {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		noun := "goroutines"
		if s.Goroutines == 1 {
			noun = "goroutine"
		}
		fmt.Fprintf(&b, "[%s] %d %s\n", s.Region, s.Goroutines, noun)
		for _, f := range s.Frames {
			fmt.Fprintf(&b, "  %s\n", f)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Merge adds up profiles of one kind, and writes the sum in the format of pprof.
func Merge(w io.Writer, profiles map[int][]byte) error {
	var all []*profile.Profile
	for rank, data := range profiles {
		p, err := profile.Parse(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("cannot read the profile of rank %d: %w", rank, err)
		}
		all = append(all, p)
	}
	sum, err := profile.Merge(all)
	if err != nil {
		return err
	}
	return sum.Write(w)
}
