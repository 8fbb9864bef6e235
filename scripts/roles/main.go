package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "roles: %v\n", err)
		os.Exit(1)
	}
}

// write writes a row for each verb of each kind of agent. Rows of equal roles are one.
func write(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| agent | verbs |")
	for _, r := range subjects.AllRoles() {
		b.WriteString(" " + r.String() + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(subjects.AllRoles())) + "\n")
	table := append(agent.Permissions(), system.Permissions()...)
	for _, on := range []string{agent.OnHost, agent.OnProc, agent.OnController, system.OnSystem} {
		verbs := map[string][]string{}
		var order []string
		for _, p := range table {
			if !slices.Contains(p.Agents, on) {
				continue
			}
			cells := cellsOf(p)
			if verbs[cells] == nil {
				order = append(order, cells)
			}
			verbs[cells] = append(verbs[cells], "`"+p.Verb+"`")
		}
		for _, cells := range order {
			slices.Sort(verbs[cells])
			b.WriteString("| " + on + " | " + strings.Join(verbs[cells], " ") + " | " + cells + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cellsOf returns a cell for each role.
func cellsOf(p agent.Permission) string {
	var b strings.Builder
	for _, r := range subjects.AllRoles() {
		how := ""
		if slices.Contains(p.Owners, r) {
			how = "own"
		}
		if slices.Contains(p.Roles, r) {
			how = "yes"
		}
		b.WriteString(cmp.Or(how, "–") + " | ")
	}
	return strings.TrimRight(b.String(), " ")
}
