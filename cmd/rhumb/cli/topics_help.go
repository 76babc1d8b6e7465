package cli

import "github.com/spf13/cobra"

const exitCodesHelp = `Exit codes of all commands:

  0  done; verify: equal; log verify: undamaged
  1  refused or failed; verify: the regions differ; log verify: damage was found; certs show: a certificate cannot
     be used
  2  cannot tell: wrong usage, a region cannot be reached or gave no answer in time, the command was interrupted;
     verify: something could not be compared

A change that ends with 2 may or may not have happened: look before you try again. Commands that mean more by their
codes, such as 'rhumb topology plan', say so in their own help. Results go to standard output, errors and warnings
to standard error.`

const environmentHelp = `Commands that ask a region take this from the environment:

  RHUMB_ADDR      admin API to ask, such as https://admin.us.example:8080 (default http://127.0.0.1:8080);
                  --addr goes before it. With --region NAME that one is asked where region NAME is, and then that
                  region does the command
  RHUMB_TOKEN     token that the API asks for (admin.token_file and admin.tokens in the region's file)
  RHUMB_CACERT    file of the CA certificates that the server's is checked with, such as certs/ca.crt (default:
                  those of the system)
  RHUMB_CERT      file of a client certificate, where the API takes those instead of a token
  RHUMB_KEY       file of its key
  RHUMB_PASSWORD  password of 'rhumb user create' and 'rhumb user password'
  RHUMB_DEV       socket of the mesh that 'rhumb dev' runs, for 'rhumb dev region', 'link' and 'show'

The region's own file takes nothing from the environment.`

// helpTopics are pages of "rhumb help" that belong to no command.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What a command's exit code says", Long: exitCodesHelp},
		{Use: "environment", Short: "Variables that commands read", Long: environmentHelp},
	}
}
