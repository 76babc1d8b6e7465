// Command rhumb is the one binary: `rhumb server` runs a region, `rhumb dev` a
// whole mesh on one machine, and the other commands look at and change a mesh.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/cmd/rhumb/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	// Signals stay caught to the end: a command that has said its result and is then
	// asked to stop exits with that result, not by the signal.
	os.Exit(cli.Run(ctx, newRoot(), os.Args[1:], os.Stderr))
}

// newRoot makes the whole tree of commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "rhumb",
		Short: "A geo-replicated messaging mesh",
		Long: "Rhumb is a geo-replicated messaging mesh: every region has its own broker, and messages reach\n" +
			"the other regions in order, without loss, exactly once.",
	}
	cli.AddCommands(root)
	root.AddCommand(serverCommand(), devCommand())
	return root
}
