package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Exit codes; exitCodesHelp says what they mean.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUnknown = 2
)

// AddCommands adds all commands of this package to the root.
func AddCommands(root *cobra.Command) {
	for _, c := range []*cobra.Command{verifyCommand(), topicCommand(), linkCommand(), pathCommand(), gapCommand(), userCommand(), tenantCommand(), namespaceCommand(), topologyCommand(), produceCommand(),
		consumeCommand(), logCommand(), certsCommand(), regionCommand(), configCommand(), versionCommand()} {
		root.AddCommand(c)
	}
	root.AddCommand(helpTopics()...)
}

// Run executes the root command with args, prints what failed to errOut and
// gives the exit code.
func Run(ctx context.Context, root *cobra.Command, args []string, errOut io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetFlagErrorFunc(flagRefused)
	root.InitDefaultCompletionCmd(args...)
	if c, _, err := root.Find([]string{"completion"}); err == nil && c.RunE == nil {
		c.RunE = helpOnly // with it cobra looks at arguments: a shell that it does not know is refused
	}
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil {
		c.Run, c.RunE = nil, helpOf
	}
	finish := func() {}
	defer func() { finish() }()
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) (err error) {
		finish, err = limitTime(c)
		return err
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var told *toldError
	if errors.As(err, &told) {
		return told.code
	}
	if cmd == root || cmd.HasSubCommands() {
		err = usage(cmd, noCommand(cmd, err))
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "interrupted") {
		err = fmt.Errorf("interrupted: %w", err)
	}
	tell(errOut, err)
	return exitCode(err)
}

// tell prints what failed: a line, or one for each mistake of a file.
func tell(out io.Writer, err error) {
	var all mistakes
	if !errors.As(err, &all) {
		all = mistakes{err}
	}
	for _, one := range all {
		fmt.Fprintf(out, "rhumb: %s\n", sentence(one.Error()))
	}
}

// flagRefused tells of a wrong flag, or of the word before it, if that should have been a
// command: it is why the flag is not known.
func flagRefused(c *cobra.Command, err error) error {
	if words := c.Flags().Args(); c.HasSubCommands() && len(words) > 0 {
		return usage(c, unknownCommand(c, words[0]))
	}
	if name, is := strings.CutPrefix(err.Error(), "unknown flag: --"); is {
		err = didYouMean(err, "--"+name, func(yield func(string) bool) {
			c.Flags().VisitAll(func(f *pflag.Flag) { yield("--" + f.Name) })
		})
	}
	return usage(c, err)
}

// unknownCommand refuses a word that is no command below c.
func unknownCommand(c *cobra.Command, word string) error {
	return didYouMean(fmt.Errorf("unknown command %q for %q", word, c.CommandPath()), word, func(yield func(string) bool) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && !yield(sub.Name()) {
				return
			}
		}
	})
}

// didYouMean ends a refusal of a word with those of the known ones that are like it.
func didYouMean(err error, word string, known iter.Seq[string]) error {
	if like := nearest.Names(word, known); len(like) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, strings.Join(like, " or "))
	}
	return err
}

// helpOf is "rhumb help": of words that are no command it says so, which cobra's own
// takes for done.
func helpOf(c *cobra.Command, words []string) error {
	found, rest, err := c.Root().Find(words)
	switch {
	case found == nil || err != nil:
		return usage(c.Root(), unknownCommand(c.Root(), words[0]))
	case len(rest) > 0 && found.HasSubCommands():
		return usage(found, unknownCommand(found, rest[0]))
	}
	found.InitDefaultHelpFlag()
	return found.Help()
}

// limitTime gives a command that has --timeout that long.
func limitTime(c *cobra.Command) (finish func(), err error) {
	f := c.Flag(timeoutFlag)
	if f == nil || !f.Changed {
		return func() {}, nil
	}
	d, err := time.ParseDuration(f.Value.String())
	if err != nil || d <= 0 {
		return func() {}, usage(c, fmt.Errorf("--timeout %s: must be above 0", f.Value))
	}
	ctx, cancel := context.WithTimeout(c.Context(), d)
	c.SetContext(ctx)
	return cancel, nil
}

// noCommand makes one line of cobra's refusal of a command, with what may have been
// meant.
func noCommand(c *cobra.Command, err error) error {
	word, _, is := strings.Cut(strings.TrimPrefix(err.Error(), "unknown command \""), "\" for ")
	if !is || !strings.HasPrefix(err.Error(), "unknown command") {
		return err
	}
	return unknownCommand(c, word)
}

// sentence mends joints of texts that were made apart from each other.
func sentence(text string) string {
	return strings.NewReplacer(".; ", "; ", "?; ", "? ", "\n", " ").Replace(strings.TrimSpace(text))
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

// topicNamed, spaceNamed and regionName read an argument or a flag that is a name; one that
// cannot be is wrong usage.
func topicNamed(c *cobra.Command, text string) (rhumb.Topic, error) {
	t, err := rhumb.ParseTopic(text)
	if err != nil {
		return t, usage(c, err)
	}
	return t, nil
}

func spaceNamed(c *cobra.Command, text string) (rhumb.Space, error) {
	s, err := rhumb.ParseSpace(text)
	if err != nil {
		return s, usage(c, err)
	}
	return s, nil
}

func regionName(c *cobra.Command, text string) (rhumb.RegionName, error) {
	name := rhumb.RegionName(text)
	if err := name.Validate(); err != nil {
		return name, usage(c, err)
	}
	return name, nil
}

// notNegative refuses a length of time below 0, of a flag.
func notNegative(c *cobra.Command, flag string, d time.Duration) error {
	if d < 0 {
		return usage(c, fmt.Errorf("--%s %s: must not be below 0", flag, d))
	}
	return nil
}

// exactly and atLeast are cobra's checks of arguments as usage errors.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(c, fmt.Errorf("%s, want %s", argumentCount(args), what))
		}
		return nil
	}
}

func between(low, high int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < low || high >= 0 && len(args) > high {
			return usage(c, fmt.Errorf("%s, want %s", argumentCount(args), what))
		}
		return nil
	}
}

func argumentCount(args []string) string {
	if len(args) == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", len(args))
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
