package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/cmd/rhumb/cli"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/cmd/rhumb/dev"
	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func devCommand() *cobra.Command {
	var (
		names    []string
		opts     dev.Options
		logLevel string
		consulAt string
	)
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole mesh on this machine",
		Long: "Runs a mesh of real regions on this machine: the i-th one listens for Kafka clients on port 9092+100i, for\n" +
			"HTTP on 8080+100i and for links on UDP 7650+100i, all on loopback. public/default flows between all of them.\n" +
			"Without --data everything is stored in a temporary folder, which is removed when the mesh stops cleanly.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, n := range names {
				opts.Regions = append(opts.Regions, rhumb.RegionName(n))
			}
			if err := new(slog.Level).UnmarshalText([]byte(logLevel)); err != nil {
				return cli.Usage(cmd, fmt.Errorf("--log-level %q: want debug, info, warn or error", logLevel))
			}
			var err error
			if opts.Consul, err = devConsul(consulAt); err == nil && opts.Consul != nil && opts.Data == "" {
				err = errors.New("--consul needs --data: the documents in Consul name the regions' data directories for ever")
			}
			if err != nil {
				return cli.Usage(cmd, err)
			}
			opts.Out = cmd.OutOrStdout()
			opts.Logger = newLogger(cmd.ErrOrStderr(), config.Log{Level: logLevel, Format: "auto"})
			return dev.Run(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringSliceVar(&names, "regions", []string{"us", "eu", "ap"}, "names of the regions")
	cmd.Flags().StringVar(&opts.Data, "data", "", "where to store everything (default: a temporary folder)")
	cmd.Flags().StringVar(&consulAt, "consul", "", "keep the mesh's documents in this Consul, host:port or consul://host:port/prefix, instead of a directory; needs --data")
	cmd.Flags().IntVar(&opts.PortOffset, "port-offset", 0, "add this to every port, to run beside another mesh or a busy port")
	cmd.Flags().BoolVar(&opts.Processes, "processes", false, "run each region as a process of its own")
	cmd.Flags().StringVar(&logLevel, "log-level", "warn", "what the regions in this process log: debug, info, warn, error")
	cmd.PersistentFlags().StringVar(&opts.Control, "control", controlPath(), "socket for the commands below (also $RHUMB_DEV)")
	to := &devTarget{control: &opts.Control}
	for _, child := range []*cobra.Command{devRegionCommand(to), devLinkCommand(to), devShowCommand(to)} {
		to.Flags(child)
		cmd.AddCommand(child)
	}
	return cmd
}

// devConsul reads --consul.
func devConsul(text string) (*consul.Config, error) {
	if text == "" {
		return nil, nil
	}
	if !strings.HasPrefix(text, "consul:") {
		text = consul.Scheme + text
	}
	cfg, err := consul.ParseURL(text)
	return &cfg, err
}

// devTarget is what commands to a running mesh share.
type devTarget struct {
	cli.Output
	control *string
}

// arguments checks how many there are. A wrong number is wrong usage.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.RangeArgs(least, most)(cmd, args); err != nil {
			return cli.Usage(cmd, err)
		}
		return nil
	}
}

func controlPath() string {
	if path := os.Getenv("RHUMB_DEV"); path != "" {
		return path
	}
	return dev.DefaultControl()
}

func devRegionCommand(to *devTarget) *cobra.Command {
	return &cobra.Command{
		Use:       "region kill|start NAME",
		Short:     "Kill a region of the running mesh as kill -9 would, or start it again",
		Args:      arguments(2, 2),
		ValidArgs: []string{"kill", "start"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "kill" && args[0] != "start" {
				return cli.Usage(cmd, fmt.Errorf("%q: want kill or start", args[0]))
			}
			return to.send(cmd, dev.Command{Do: args[0], Region: rhumb.RegionName(args[1])})
		},
	}
}

func devLinkCommand(to *devTarget) *cobra.Command {
	return &cobra.Command{
		Use:   "link LINK cut|heal|set [SETTINGS]",
		Short: "Cut, heal or change the network between two regions of the running mesh",
		Long: "LINK is us-eu (both directions), 'us>eu' (only what travels from us to eu) or '*' (every link).\n" +
			"SETTINGS is a list such as rtt=80ms,loss=1%,rate=100mbit; what it does not name stays. Keys: rtt, delay,\n" +
			"jitter, loss, reorder, duplicate, rate (0: no limit), queue, cut. An rtt is for both directions together: each\n" +
			"takes half. heal undoes a cut and nothing else. The configuration store is not behind these links: what it\n" +
			"distributes, such as the deletion of a topic, reaches every region at once.",
		Example: "  rhumb dev link us-eu cut\n  rhumb dev link us-eu heal\n  rhumb dev link us-ap set rtt=80ms,loss=1%",
		Args:    arguments(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			settings := map[string]string{"cut": "cut=true", "heal": "cut=false"}[args[1]]
			switch {
			case args[1] == "set" && len(args) == 3:
				settings = args[2]
			case settings == "" || len(args) == 3:
				return cli.Usage(cmd, errors.New("want LINK cut, LINK heal or LINK set SETTINGS"))
			}
			return to.send(cmd, dev.Command{Do: "set", Link: args[0], Settings: settings})
		},
	}
}

func devShowCommand(to *devTarget) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the regions and links of the running mesh",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return to.send(cmd, dev.Command{Do: "show"})
		},
	}
}

// send gives a command to the mesh and prints what it was about.
func (to *devTarget) send(cmd *cobra.Command, c dev.Command) error {
	state, err := dev.Send(cmd.Context(), *to.control, c)
	if err != nil {
		return err
	}
	if c.Do != "show" { // only what was changed
		state.Regions = slices.DeleteFunc(state.Regions, func(r dev.RegionState) bool { return r.Name != c.Region })
		state.Links = slices.DeleteFunc(state.Links, func(l dev.LinkState) bool { return !isOn(l, c.Link) })
	}
	return to.Print(cmd.OutOrStdout(), state, func(w io.Writer) {
		for _, r := range state.Regions {
			is := "stopped"
			if r.Running {
				is = fmt.Sprintf("pid %d", r.PID)
			}
			fmt.Fprintf(w, "region %s\t%s\tkafka %s\tadmin http://%s\tgeo %s\n", r.Name, is, r.Kafka, r.Admin, r.Geo)
		}
		for _, l := range state.Links {
			fmt.Fprintf(w, "link %s>%s\t%s\n", l.From, l.To, l.Changed())
		}
	})
}

// isOn reports whether LINK, as 'rhumb dev link' takes it, is about a direction or its opposite.
func isOn(l dev.LinkState, link string) bool {
	a, b := string(l.From), string(l.To)
	return link == "*" || slices.Contains([]string{a + ">" + b, b + ">" + a, a + "-" + b, b + "-" + a}, link)
}
