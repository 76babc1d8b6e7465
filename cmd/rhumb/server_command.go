package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/cmd/rhumb/cli"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/cmd/rhumb/server"
)

func serverCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "server --config FILE",
		Short: "Run one region",
		Long: "Runs one region until SIGTERM or Ctrl-C, then stops it cleanly: not ready, listeners closed, what is in\n" +
			"flight finished, flushed, exit 0. The file is strict: unknown keys are refused. docs/operating.md has one\n" +
			"with comments.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return cli.Usage(cmd, errors.New("--config is required"))
			}
			cfg, err := config.Load(path)
			if err != nil {
				return err
			}
			log := newLogger(cmd.ErrOrStderr(), cfg.Log)
			if limit := cfg.LimitMemory(); limit > 0 {
				cfg.FitMemory(limit)
				log.Info("memory is limited", "bytes", limit)
				if sum, beyond := cfg.Budgets(limit); beyond {
					log.Warn("what limits sets adds up to more than the memory that there is: under load the process may be killed (docs/limits.md)", "budgets", sum, "bytes", limit)
				}
			}
			if files := config.FilesLimit(); cfg.FitFiles(files) {
				log.Warn("clients get fewer connections than limits.connections says: raise the limit of open files (ulimit -n, LimitNOFILE=)", "open_files_limit", files, "connections", cfg.Limits.Connections)
			}
			return runServer(cmd.Context(), server.New(cfg, server.Options{Logger: log}), log)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the region's file (required)")
	return cmd
}

func runServer(ctx context.Context, s *server.Server, log *slog.Logger) error {
	err := s.RunInTime(ctx)
	if err != nil {
		return errors.New(err.Error()) // without its kind: whatever kept the region from running, the exit code is 1
	}
	log.Info("stopped")
	return nil
}

// newLogger logs as the configuration says; auto is text for a person at a
// terminal and JSON for everything else.
func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	var level slog.Level
	level.UnmarshalText([]byte(cfg.Level)) // validated by the configuration
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" || cfg.Format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
