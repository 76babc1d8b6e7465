package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// passwordVariable holds a password for who has no terminal.
const passwordVariable = "RHUMB_PASSWORD"

// readPassword takes a password from the environment, else from the terminal,
// twice and unseen, else the first line of standard input. Never from the command
// line, which other users of the machine can read.
func readPassword(c *cobra.Command) (string, error) {
	if p, ok := os.LookupEnv(passwordVariable); ok {
		return p, nil
	}
	if f, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return askPassword(f, c.ErrOrStderr())
	}
	line, err := bufio.NewReader(io.LimitReader(c.InOrStdin(), 64<<10)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", rhumb.Errorf(rhumb.KindInvalid, "read the password: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", rhumb.Errorf(rhumb.KindInvalid, "no password: set $%s, or give it on standard input", passwordVariable)
	}
	return line, nil
}

func askPassword(f *os.File, out io.Writer) (string, error) {
	var said [2]string
	for i, prompt := range []string{"Password: ", "Again: "} {
		fmt.Fprint(out, prompt)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(out)
		if err != nil {
			return "", rhumb.Errorf(rhumb.KindInvalid, "read the password: %w", err)
		}
		said[i] = string(b)
	}
	if said[0] != said[1] {
		return "", rhumb.Errorf(rhumb.KindInvalid, "the passwords differ")
	}
	return said[0], nil
}
