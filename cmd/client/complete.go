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

// completeWithin bounds how long a shell waits for names from the bus.
const completeWithin = time.Second

// lookup finds the names that may stand at a position, given the arguments before it.
type lookup func(ctx context.Context, net *mesh.Net, args []string) ([]string, error)

// complete completes each argument by its lookup. Where the bus cannot be asked there are no
// suggestions, and no noise either.
func (a *app) complete(by ...lookup) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(by) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.logLevel = "disabled"
		ctx, cancel := context.WithTimeout(c.Context(), completeWithin)
		defer cancel()
		var names []string
		_ = a.connected(ctx, func(net *mesh.Net) (err error) { // what is known is all there is to suggest
			names, err = by[len(args)](ctx, net, args)
			return err
		})
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(n string) bool { return !strings.HasPrefix(n, prefix) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeEach completes every argument by one lookup, which is told those before it.
func (a *app) completeEach(l lookup) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.complete(slices.Repeat([]lookup{l}, len(args)+1)...)(c, args, prefix)
	}
}

// completeList completes the last of several with commas between, by a lookup that is told those before it.
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

// liveNames are the labels of the meshes that live, worlds that have procs among them.
func liveNames(ctx context.Context, net *mesh.Net, _ []string) ([]string, error) {
	meshes, err := net.Meshes(ctx)
	var names []string
	for _, m := range meshes {
		if alive(m) {
			names = append(names, m.Procs.ID().Label())
		}
	}
	return names, err
}

// meshNames are those and the worlds that have no procs.
func meshNames(ctx context.Context, net *mesh.Net, _ []string) (names []string, _ error) {
	for _, l := range []lookup{liveNames, worldNames} {
		some, _ := l(ctx, net, nil) // there may be no host, or no system controller
		names = append(names, some...)
	}
	return names, nil
}

// rankNames are the ranks of worlds and of meshes, each as name/rank.
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

// actorNames are the labels of the actors in the mesh that is the first argument.
func actorNames(ctx context.Context, net *mesh.Net, args []string) ([]string, error) {
	records, err := lookActors(ctx, net, args)
	var names []string
	for _, r := range records {
		names = append(names, labelOf(r.Actor))
	}
	return names, err
}

// endpointNames are what the actor that is the second argument can be asked.
func endpointNames(ctx context.Context, net *mesh.Net, args []string) ([]string, error) {
	records, err := lookActors(ctx, net, args)
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

func lookActors(ctx context.Context, net *mesh.Net, args []string) ([]actorRecord, error) {
	t, err := parseTarget(args[0])
	if err != nil {
		return nil, err
	}
	p, err := t.find(ctx, net)
	if err != nil {
		return nil, err
	}
	return actorRecords(ctx, p, false)
}

// labelOf is the part of a name that people chose.
func labelOf(name string) string {
	if n := len(name) - subjects.UIDLen - 1; n > 0 && name[n] == '-' {
		return name[:n]
	}
	return name
}
