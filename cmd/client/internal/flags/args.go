package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// WantArgs refuses a wrong number of arguments and names the extra or missing ones.
func WantArgs(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > most {
			return fmt.Errorf("unexpected argument %q", args[most])
		}
		if len(args) < least {
			return fmt.Errorf("want %s", strings.Join(strings.Fields(c.Use)[1+len(args):1+least], " "))
		}
		return nil
	}
}

// GroupCommand makes a command of subcommands. By itself it shows its help.
func GroupCommand(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.AddCommand(commands...)
	c.Args = WantCommand
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// WantCommand refuses unknown subcommands. By default cobra shows the help and exits with 0.
func WantCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	c.SuggestionsMinimumDistance = 2 // letters
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// EscapeNegativeNumbers keeps a negative number from being parsed as a flag, by a space before it.
// A number after a flag may be the flag's value and stays.
func EscapeNegativeNumbers(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break // the rest stays as it is
		}
		negative := len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
		if negative && i > 0 && !strings.HasPrefix(args[i-1], "-") {
			out[i] = " " + arg
		}
	}
	return out
}
