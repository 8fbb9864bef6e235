package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/mesh"
)

// completionTimeout bounds a shell completion.
const completionTimeout = time.Second

// Lookup returns the candidates for a position, given the arguments before it.
type Lookup func(ctx context.Context, conn *mesh.Net, args []string) ([]string, error)

// Complete completes each argument by its lookup. Without a bus it suggests nothing and stays
// silent.
func (a *App) Complete(by ...Lookup) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(by) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.LogLevel = "disabled"
		ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
		defer cancel()
		var names []string
		_ = a.WithNet(ctx, func(conn *mesh.Net) (err error) { // partial results are good enough
			names, err = by[len(args)](ctx, conn, args)
			return err
		})
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(n string) bool {
			return !strings.HasPrefix(n, prefix)
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteEach completes every argument by one lookup.
func (a *App) CompleteEach(l Lookup) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.Complete(slices.Repeat([]Lookup{l}, len(args)+1)...)(c, args, prefix)
	}
}

// CompleteList completes the last item of a comma-separated list.
func (a *App) CompleteList(l Lookup) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		before := strings.Split(text, ",")
		prefix := before[len(before)-1]
		before = before[:len(before)-1]
		told := func(
			ctx context.Context, conn *mesh.Net, _ []string,
		) ([]string, error) {
			return l(ctx, conn, before)
		}
		names, how := a.Complete(told)(c, nil, prefix)
		for i, n := range names {
			names[i] = strings.Join(append(slices.Clone(before), n), ",")
		}
		return names, how
	}
}
