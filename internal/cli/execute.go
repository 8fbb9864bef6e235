package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Execute runs the command line and returns the exit code; errors are printed to stderr (CLI-6).
// An error from before a command's RunE is about what was typed.
func Execute(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	entered := false
	each(root, func(c *cobra.Command) {
		if run := c.RunE; run != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				entered = true
				return run(c, args)
			}
		}
	})
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	if entered {
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		return ExitCode(err)
	}
	line := strings.Join(strings.Fields(err.Error()), " ") // cobra puts its suggestions on lines of their own
	fmt.Fprintf(stderr, "%s: %s\nusage: %s (see %s --help)\n", root.Name(), line, cmd.UseLine(), cmd.CommandPath())
	return ExitUsage
}

func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		each(sub, f)
	}
}
