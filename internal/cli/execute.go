package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Execute runs the command line, prints an error to stderr (CLI-5) and returns the exit code. An
// error before a command's RunE is a usage error, as is an empty value of a flag.
func Execute(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	entered := false
	eachCommand(root, func(c *cobra.Command) {
		c.InitDefaultHelpFlag() // cobra would take the word after an unknown flag for its value
		if run := c.RunE; run != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				if err := refuseEmpty(c.Flags()); err != nil {
					return err
				}
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

// mayBeEmpty is the annotation of a flag for which an empty value has a meaning.
const mayBeEmpty = "castnet_may_be_empty"

// AllowEmpty lets flags have an empty value.
func AllowEmpty(fs *pflag.FlagSet, names ...string) {
	for _, name := range names {
		fs.Lookup(name).Annotations = map[string][]string{mayBeEmpty: nil}
	}
}

// refuseEmpty refuses an empty value of a typed flag: an unset variable of a script is not a choice
// of the default.
func refuseEmpty(fs *pflag.FlagSet) (err error) {
	fs.Visit(func(f *pflag.Flag) {
		_, allowed := f.Annotations[mayBeEmpty]
		if !allowed && isEmpty(f.Value) && err == nil {
			want, _ := pflag.UnquoteUsage(f)
			err = fmt.Errorf(`invalid argument "" for --%s: want %s, or no --%[1]s`, f.Name, want)
		}
	})
	return err
}

// isEmpty reports whether a value, or one of a list, is empty.
func isEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		all := list.GetSlice()
		return len(all) == 0 || slices.Contains(all, "")
	}
	return v.String() == ""
}

func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}
