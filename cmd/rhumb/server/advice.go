package server

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// The steps of the start that advice tells apart.
const (
	stepCerts    = "certificates"
	stepDir      = "data directory"
	stepStore    = "configuration store"
	stepStorage  = "storage"
	stepRegister = "registration"
	stepTrust    = "certificate of the links"
)

// advised is why a region does not start or go on, and what to do about it, in one
// line: the last that an operator sees of it.
type advised struct {
	err  error
	next string
}

// Error is one line whatever the errors within print.
func (a *advised) Error() string {
	text := strings.ReplaceAll(strings.TrimSpace(a.err.Error()), "\n", "; ")
	if a.next == "" {
		return text
	}
	return text + "; " + a.next
}

// Unwrap gives the error without the advice.
func (a *advised) Unwrap() error { return a.err }

// advise adds to the failure of a step of the start what to do next, unless the error
// says it. A step "" is a part that ended later.
func (s *Server) advise(step string, err error) error {
	var already *advised
	if err == nil || errors.As(err, &already) {
		return err
	}
	next := s.nextStep(step, err)
	if step != "" {
		err = fmt.Errorf("%s: %w", step, err)
	}
	return &advised{err, next}
}

// together joins the end of a region with what its closing said, in one line, without
// what only repeats the cause.
func together(err error, closing ...error) error {
	cause := err
	for next := errors.Unwrap(cause); next != nil; next = errors.Unwrap(cause) {
		cause = next
	}
	all := []error{err}
	for _, c := range closing {
		if cause == nil || !errors.Is(c, cause) {
			all = append(all, c)
		}
	}
	joined := errors.Join(all...)
	if joined == nil || !strings.Contains(joined.Error(), "\n") {
		return joined
	}
	return &advised{err: joined}
}

// nextStep says what a person does about it.
func (s *Server) nextStep(step string, err error) string {
	switch {
	case step == stepTrust:
		return "" // it says it
	case errors.Is(err, configstore.ErrOtherData):
		return "while no region runs that could be asked, add --config-store " + s.storeFlag()
	case errors.Is(err, configstore.ErrRemoved), errors.Is(err, configstore.ErrOthers), errors.Is(err, consul.ErrDenied),
		strings.Contains(err.Error(), "runs already"), strings.Contains(err.Error(), "last good copy is damaged"):
		return "" // they say it
	case errors.Is(err, syscall.EADDRINUSE):
		return "stop what listens there, or change the listener's bind"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "this host has no such address: change the listener's bind"
	case errors.Is(err, fs.ErrPermission):
		return "let the user that runs rhumb read and write there"
	case errors.Is(err, syscall.ENOSPC), rhumb.KindOf(err) == rhumb.KindNoSpace:
		return "add space, or delete what is not Rhumb's, and start again"
	case step == stepDir:
		return "correct data_dir in the region's file: a directory, or the name of one that can be made"
	case step == stepStore && s.cfg.ConfigStore.Embedded != nil && (errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EEXIST)):
		return "correct config_store.embedded.path in the region's file: it must be a directory"
	case step == stepStore && s.cfg.ConfigStore.Consul != nil && rhumb.KindOf(err) == rhumb.KindInvalid:
		return "correct config_store.consul in the region's file, such as its token_file and tls"
	case step == stepCerts:
		return "correct the listener's tls, or see what is wrong with the files with 'rhumb certs show'"
	case step == stepStore, step == stepRegister:
		return s.nextOfStore(err)
	}
	return s.nextOfStorage(step, err)
}

func (s *Server) nextOfStore(err error) string {
	if errors.Is(err, configstore.ErrNoMesh) {
		return "the region's certificate is of a mesh that this store does not hold: correct config_store, or make mesh and certificates with 'rhumb certs init --config-store " + s.storeFlag() + "'"
	}
	mesh := s.certifiedMesh()
	if errors.Is(err, configstore.ErrOtherMesh) && s.room.kept && strings.Contains(err.Error(), "the store has mesh") {
		return s.nextOfOtherMesh("start again and give 'rhumb config restore --yes'")
	}
	switch kind := rhumb.KindOf(err); {
	case errors.Is(err, configstore.ErrOtherMesh) && !mesh.IsZero():
		return fmt.Sprintf("correct config_store, data_dir or the links' certificate, which is of mesh %s, in the region's file: they must be of one mesh", mesh)
	case kind == rhumb.KindNotFound && s.cfg.ConfigStore.Embedded != nil:
		return "correct config_store.embedded.path, or if this is to be a new mesh, make it first with 'rhumb certs init --config-store " + s.storeFlag() + "'"
	}
	switch rhumb.KindOf(err) {
	case rhumb.KindCorrupt:
		return "put a copy of that file back"
	case rhumb.KindForbidden, rhumb.KindInvalid, rhumb.KindNotFound:
		return "correct config_store, data_dir or region in the region's file: they must belong to each other"
	}
	return "bring the configuration store that config_store names back, and start again"
}

// nextOfOtherMesh says what to do where a region that knows its mesh finds another one in its
// store: it was pointed at the wrong one, or the right one was lost and made anew. then is
// what follows when the new mesh's id is gone.
func (s *Server) nextOfOtherMesh(then string) string {
	remove := ""
	if files := s.cfg.ConfigStore.Embedded; files != nil {
		remove = "rm " + shellWord(filepath.Join(files.Path, filepath.FromSlash(configstore.MeshKey)+".json"))
	} else if c := s.cfg.ConfigStore.Consul; c != nil {
		remove = "consul kv delete " + shellWord(strings.TrimPrefix(path.Join(c.Backend().Prefix, configstore.MeshKey), "/"))
	}
	return "correct config_store or data_dir in the region's file; or if it is the right store, which was emptied and in which somebody made a new mesh, remove that one's id ('" +
		remove + "'), then " + then
}

func (s *Server) nextOfStorage(step string, err error) string {
	dir := shellWord(s.cfg.DataDir)
	switch rhumb.KindOf(err) {
	case rhumb.KindCorrupt:
		return fmt.Sprintf("see all that is damaged with 'rhumb log verify %s'; then put a whole copy of the directory back, or to get from the other regions what they have, empty it%s and run '%s'",
			dir, s.butForStore(), s.replaceCommand())
	case rhumb.KindUnsupported:
		return "start the version of rhumb that wrote it, or a newer one"
	case rhumb.KindForbidden:
		return "correct data_dir or config_store in the region's file: they must be of one mesh"
	case rhumb.KindInvalid:
		return "correct the region's file"
	}
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return "stop the process that uses the directory, or correct data_dir"
	case step == stepStorage, step == "":
		return fmt.Sprintf("look at the disk and start again: what was acknowledged is recovered; if it stays so, run 'rhumb log verify %s'", dir)
	}
	return "correct that and start again"
}

// butForStore names what must stay when the data directory is emptied: a store in it has
// all documents of the mesh, and the region's own.
func (s *Server) butForStore() string {
	files := s.cfg.ConfigStore.Embedded
	if files == nil {
		return ""
	}
	within, err := filepath.Rel(s.cfg.DataDir, files.Path)
	if within == "." {
		return " but for the configuration store in it"
	}
	if err != nil || within == ".." || strings.HasPrefix(within, ".."+string(filepath.Separator)) {
		return ""
	}
	return " but for " + shellWord(within)
}

func (s *Server) replaceCommand() string {
	c := "rhumb region replace " + string(s.cfg.Region.Name) + " --yes"
	return c + " --config-store " + s.storeFlag()
}

// storeFlag names the configuration store as commands take it.
func (s *Server) storeFlag() string {
	if files := s.cfg.ConfigStore.Embedded; files != nil {
		return shellWord(files.Path)
	}
	return shellWord(s.cfg.ConfigStore.Consul.Backend().URL())
}

// storageFailed logs that storage ended the region. Damage stays what it is over any
// number of restarts.
func (s *Server) storageFailed(err error) {
	if rhumb.KindOf(err) == rhumb.KindCorrupt {
		s.log.Error("storage is damaged, look at it with 'rhumb log verify'", "dir", s.cfg.DataDir, "err", err)
		return
	}
	s.log.Error("storage failed, restart to recover", "err", err)
}

// storageProblem is what health says of storage that failed.
func (s *Server) storageProblem(err error) string {
	if rhumb.KindOf(err) == rhumb.KindCorrupt {
		return fmt.Sprintf("%v; stop the region and run 'rhumb log verify %s'", err, shellWord(s.cfg.DataDir))
	}
	return fmt.Sprintf("%v; restart the region to recover what is on disk", err)
}

// shellWord writes a path as one word of a command line. Commands stand in '…' in what
// people read, so it quotes with ".
func shellWord(path string) string {
	plain := func(r rune) bool {
		return r >= 0x80 && unicode.IsLetter(r) || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("/._-+=:@%,~", r)
	}
	if path != "" && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(path) + `"`
}
