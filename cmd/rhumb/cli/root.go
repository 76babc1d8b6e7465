package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Exit codes; the package comment says what they mean.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUnknown = 2
)

// AddCommands adds all commands of this package to the root.
func AddCommands(root *cobra.Command) {
	for _, c := range []*cobra.Command{verifyCommand(), topicCommand(), linkCommand(), gapCommand(), userCommand(), tenantCommand(), namespaceCommand(), produceCommand(),
		consumeCommand(), logCommand(), certsCommand(), regionCommand(), configCommand(), versionCommand()} {
		root.AddCommand(c)
	}
}

// Run executes the root command with args, prints what failed to errOut and
// gives the exit code.
func Run(ctx context.Context, root *cobra.Command, args []string, errOut io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(c, err) })
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var told *toldError
	if errors.As(err, &told) {
		return told.code
	}
	if cmd == root || cmd.HasSubCommands() {
		err = usage(cmd, err) // cobra's own: no such command
	}
	fmt.Fprintf(errOut, "rhumb: %v\n", err)
	return exitCode(err)
}

// toldError ends a command whose output has said everything.
type toldError struct{ code int }

func (e *toldError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Usage says that a command line is wrong, and how to see the right one. It ends
// the command with exit code 2.
func Usage(cmd *cobra.Command, err error) error { return usage(cmd, err) }

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(c *cobra.Command, err error) error {
	var already *usageError
	if errors.As(err, &already) {
		return err
	}
	return &usageError{fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())}
}

// exactly and atLeast are cobra's checks of arguments as usage errors.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(c, fmt.Errorf("%d arguments, want %s", len(args), what))
		}
		return nil
	}
}

func between(low, high int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < low || high >= 0 && len(args) > high {
			return usage(c, fmt.Errorf("%d arguments, want %s", len(args), what))
		}
		return nil
	}
}

// exitCode decides between "no" and "cannot tell".
func exitCode(err error) int {
	var wrongUsage *usageError
	if errors.As(err, &wrongUsage) || errors.Is(err, context.Canceled) {
		return exitUnknown
	}
	switch rhumb.KindOf(err) {
	case rhumb.KindUnavailable, rhumb.KindTimeout, rhumb.KindNotLeader:
		return exitUnknown
	}
	return exitFailed
}
