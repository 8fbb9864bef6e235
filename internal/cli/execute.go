package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	line := strings.Join(strings.Fields(plainly(err).Error()), " ") // cobra puts its suggestions on lines of their own
	fmt.Fprintf(stderr, "%s: %s\nusage: %s (see %s --help)\n", root.Name(), line, cmd.UseLine(), cmd.CommandPath())
	return ExitUsage
}

// plainly has flags of Go's own types say what they want: the errors of these speak of functions.
func plainly(err error) error {
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

func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		each(sub, f)
	}
}
