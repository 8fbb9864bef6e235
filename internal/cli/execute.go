package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Execute runs the command line, prints an error to stderr (CLI-5) and returns the exit code. An
// error before a command's RunE is a usage error.
func Execute(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	entered := false
	eachCommand(root, func(c *cobra.Command) {
		c.InitDefaultHelpFlag() // cobra would take the word after an unknown flag for its value
		if run := c.RunE; run != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				entered = true
				return run(c, args)
			}
		}
	})
	var unknown error // from --help: cobra shows the help of the group for an unknown command in it
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if given := c.Flags().Args(); c.HasSubCommands() && len(given) > 0 {
			unknown = c.ValidateArgs(given)
		}
		if unknown == nil {
			help(c, args)
		}
	})
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, unknown)
	if err == nil {
		return ExitOK
	}
	if entered {
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		return ExitCode(err)
	}
	// cobra puts suggestions on separate lines
	line := strings.Join(strings.Fields(explainFlagError(err).Error()), " ")
	fmt.Fprintf(stderr, "%s: %s\nusage: %s (see %s --help)\n", root.Name(), line, cmd.UseLine(),
		cmd.CommandPath())
	return ExitUsage
}

// explainFlagError adds the expected form to errors of Go's own flag types, because those errors
// name Go functions.
func explainFlagError(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	want := "a whole number"
	switch number, ok := errors.AsType[*strconv.NumError](err); {
	case strings.HasPrefix(bad.Unwrap().Error(), "time: "):
		want = "a duration such as 500ms or 30s"
	case !ok:
		return err
	case number.Func == "ParseBool":
		want = "true or false"
	case errors.Is(number, strconv.ErrRange):
		want = "a whole number of 64 bits"
	}
	return fmt.Errorf("invalid argument %q for --%s: want %s", bad.GetValue(), bad.GetFlag().Name, want)
}

func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}
