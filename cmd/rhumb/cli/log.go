package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/inspect"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// logReport is what "log verify -o json" prints.
type logReport struct {
	Dir      string       `json:"dir"`
	Result   string       `json:"result"` // sound, damaged or unreadable
	Error    string       `json:"error,omitempty"`
	Logs     int          `json:"logs"`
	Indexes  int          `json:"indexes"`
	Segments int          `json:"segments"`
	Frames   int          `json:"frames"`
	Entries  int          `json:"entries"`
	Batches  int          `json:"batches"`
	Problems []logProblem `json:"problems"`
}

type logProblem struct {
	File     string `json:"file"`
	Position int64  `json:"position,string"` // -1: the whole file
	Torn     bool   `json:"torn"`            // the rest of a crash, which the next start cuts
	What     string `json:"what"`
}

func logCommand() *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "Look into a node's data directory, offline", Args: cobra.NoArgs, RunE: helpOnly}
	c.AddCommand(logDump(), logVerify(), logRenew())
	return c
}

const dumpLong = `Print what is in the logs, indexes and segments of a data directory, frame by frame and block by block, and
what is damaged. It only reads. Exit codes as for "rhumb log verify".`

func logDump() *cobra.Command {
	return &cobra.Command{Use: "dump DIR", Short: "Print what is in a data directory", Long: dumpLong, Args: exactly(1, "one DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			out := bufio.NewWriter(c.OutOrStdout())
			report, err := inspect.Dump(out, vfs.OS(), args[0])
			if err == nil {
				err = out.Flush()
			}
			if err != nil {
				return fmt.Errorf("output: %w", err)
			}
			return logVerdict(c, report)
		}}
}

const verifyLogLong = `Check every frame, block and batch of a data directory, and every block of its state database. It only reads; stop the node first, or check a copy: in a
directory that is in use, a frame that is being written looks torn.

Exit codes: 0 sound, at most with a torn tail that the next start cuts; 1 damaged; 2 cannot be read.`

func logVerify() *cobra.Command {
	f := &format{}
	c := &cobra.Command{Use: "verify DIR", Short: "Check every frame, block and batch of a data directory", Long: verifyLogLong,
		Args: exactly(1, "one DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			var text io.Writer = io.Discard
			if f.String() == "table" {
				text = c.OutOrStdout()
			}
			report, err := inspect.Verify(text, vfs.OS(), args[0])
			if err != nil {
				return fmt.Errorf("output: %w", err)
			}
			if f.String() != "table" {
				if err := f.print(c.OutOrStdout(), logJSON(args[0], report), nil); err != nil {
					return err
				}
			}
			return logVerdict(c, report)
		}}
	f.flags(c)
	return c
}

const renewLong = `Make log/NEWEST of a data directory anew, out of the log files that are there. That file names the newest log files: without
it, that the end of the log was lost would not be noticed, so a directory that has lost it does not open.

Only use it if you know that this file alone was lost, as by a copy that took *.log and left it out. If the newest log
file is gone as well, records that were acknowledged are lost, and offsets that other regions have are given to other
records: links to them then show *diverged*. A whole copy of the directory, or 'rhumb region replace', is what helps there.

It needs --yes, and a directory that no process uses. Exit code 0: done; 1: nothing to be done, or it cannot be.`

func logRenew() *cobra.Command {
	var yes bool
	c := &cobra.Command{Use: "renew DIR", Short: "Make a lost log/NEWEST anew", Long: renewLong, Args: exactly(1, "one DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			if !yes {
				return usage(c, errors.New("it needs --yes: who gives it vouches that no log file is lost"))
			}
			newest, err := storage.RenewNewest(vfs.OS(), args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "log/NEWEST names log/%016x.log as the newest file\n", newest)
			fmt.Fprintf(c.OutOrStdout(), "next: rhumb log verify %s\n", args[0])
			return nil
		}}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

func logJSON(dir string, r *inspect.Report) logReport {
	words := map[inspect.Verdict]string{inspect.Sound: "sound", inspect.Damaged: "damaged", inspect.Unreadable: "unreadable"}
	out := logReport{Dir: dir, Result: words[r.Verdict()], Logs: r.Logs, Indexes: r.Indexes, Segments: r.Segments,
		Frames: r.Frames, Entries: r.Entries, Batches: r.Batches, Problems: []logProblem{}}
	if err := r.Err(); err != nil {
		out.Error = err.Error()
	}
	for _, p := range r.Problems {
		out.Problems = append(out.Problems, logProblem{File: p.File, Position: p.Pos, Torn: p.Torn, What: p.What})
	}
	return out
}

func logVerdict(c *cobra.Command, r *inspect.Report) error {
	switch r.Verdict() {
	case inspect.Sound:
		return nil
	case inspect.Damaged:
		return &toldError{exitFailed}
	case inspect.Unreadable:
		fmt.Fprintf(c.ErrOrStderr(), "rhumb: %v\n", r.Err())
	}
	return &toldError{exitUnknown}
}
