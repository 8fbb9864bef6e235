package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// completionTimeout bounds a shell completion.
const completionTimeout = time.Second

// lookup returns the candidates for a position, given the arguments before it.
type lookup func(ctx context.Context, net *mesh.Net, args []string) ([]string, error)

// complete completes each argument by its lookup. Without a bus it suggests nothing and stays
// silent.
func (a *app) complete(by ...lookup) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(by) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.logLevel = "disabled"
		ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
		defer cancel()
		var names []string
		_ = a.withNet(ctx, func(net *mesh.Net) (err error) { // partial results are good enough
			names, err = by[len(args)](ctx, net, args)
			return err
		})
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(n string) bool { return !strings.HasPrefix(n, prefix) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeEach completes every argument by one lookup.
func (a *app) completeEach(l lookup) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.complete(slices.Repeat([]lookup{l}, len(args)+1)...)(c, args, prefix)
	}
}

// completeList completes the last item of a comma-separated list.
func (a *app) completeList(l lookup) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		before := strings.Split(text, ",")
		prefix := before[len(before)-1]
		before = before[:len(before)-1]
		told := func(ctx context.Context, net *mesh.Net, _ []string) ([]string, error) { return l(ctx, net, before) }
		names, how := a.complete(told)(c, nil, prefix)
		for i, n := range names {
			names[i] = strings.Join(append(slices.Clone(before), n), ",")
		}
		return names, how
	}
}

// liveNames returns the labels of live meshes, worlds with procs included.
func liveNames(ctx context.Context, net *mesh.Net, _ []string) ([]string, error) {
	meshes, err := net.Meshes(ctx)
	var names []string
	for _, m := range meshes {
		if hasLiveRank(m) {
			names = append(names, m.Procs.ID().Label())
		}
	}
	return names, err
}

// meshNames returns the labels of live meshes and of worlds without procs.
func meshNames(ctx context.Context, net *mesh.Net, _ []string) (names []string, _ error) {
	for _, l := range []lookup{liveNames, worldNames} {
		some, _ := l(ctx, net, nil) // there may be no host or system controller
		names = append(names, some...)
	}
	return names, nil
}

// rankNames returns the ranks of worlds and meshes as name/rank.
func rankNames(ctx context.Context, net *mesh.Net, _ []string) (names []string, _ error) {
	meshes, err := net.Meshes(ctx)
	for _, m := range meshes {
		for _, s := range m.States {
			if !s.Status.Phase.Terminal() {
				names = append(names, fmt.Sprintf("%s/%d", m.Procs.ID().Label(), s.Rank))
			}
		}
	}
	return names, err
}

// actorNames returns the actor labels of the mesh in the first argument.
func actorNames(ctx context.Context, net *mesh.Net, args []string) ([]string, error) {
	records, err := completionActors(ctx, net, args)
	var names []string
	for _, r := range records {
		names = append(names, labelOf(r.Actor))
	}
	return names, err
}

// endpointNames returns the endpoints of the actor in the second argument.
func endpointNames(ctx context.Context, net *mesh.Net, args []string) ([]string, error) {
	records, err := completionActors(ctx, net, args)
	var names []string
	for _, r := range records {
		if r.Actor != args[1] && labelOf(r.Actor) != args[1] {
			continue
		}
		for _, e := range r.Endpoints {
			name, _, _ := strings.Cut(e, "(")
			names = append(names, name)
		}
	}
	return names, err
}

func completionActors(ctx context.Context, net *mesh.Net, args []string) ([]actorRecord, error) {
	t, err := parseTarget(args[0])
	if err != nil {
		return nil, err
	}
	p, err := t.resolve(ctx, net)
	if err != nil {
		return nil, err
	}
	return actorRecords(ctx, p, false)
}

// labelOf returns the label part of a name.
func labelOf(name string) string {
	if n := len(name) - subjects.UIDLen - 1; n > 0 && name[n] == '-' {
		return name[:n]
	}
	return name
}
