package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	lockName    = "LOCK"
	changesName = "CHANGES"
	tmpMark     = ".tmp-" // no document's file name has it: file names end in .json
	suffix      = ".json"
)

// maxName bounds a file name's own part: 255 bytes less .json and a temporary
// file's ending.
const maxName = 200

// record is what a document's file holds.
type record struct {
	Key      string          `json:"key"`
	SHA256   string          `json:"sha256"`
	Document json.RawMessage `json:"document"`
}

// maxFileBytes bounds a document's file: the document, indented, and its frame.
const maxFileBytes = 4 * configstore.MaxDocumentBytes

// path gives the file of a key. Upper case letters are written %x, because a
// file system may not tell case apart.
func (s *Store) path(key string) string {
	parts := strings.Split(key, "/")
	for i, p := range parts {
		parts[i] = fileName(p)
	}
	return filepath.Join(append([]string{s.dir}, parts...)...) + suffix
}

func fileName(name string) string {
	if len(name) <= maxName && !strings.ContainsFunc(name, func(c rune) bool { return c >= 'A' && c <= 'Z' }) {
		return name // as most are
	}
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'A' && c <= 'Z' {
			b.WriteString("%" + string(c+'a'-'A'))
		} else {
			b.WriteByte(c)
		}
	}
	if b.Len() <= maxName {
		return b.String()
	}
	sum := sha256.Sum256([]byte(name))
	return b.String()[:maxName-65] + "~" + hex.EncodeToString(sum[:])
}

// readFile reads a document's file. A damaged one is an error of kind corrupt
// that names the file.
func readFile(path string) (configstore.Document, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return configstore.Document{}, err
		}
		return configstore.Document{}, unavailable("read", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return configstore.Document{}, unavailable("read", err)
	}
	d, err := decodeFile(raw)
	if err != nil {
		return d, rhumb.Errorf(rhumb.KindCorrupt, "configstore: embedded: file %s is damaged: %w", path, err)
	}
	return d, nil
}

func decodeFile(raw []byte) (configstore.Document, error) {
	if len(raw) > maxFileBytes {
		return configstore.Document{}, errors.New("too large")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var r record
	if err := dec.Decode(&r); err != nil {
		return configstore.Document{}, err
	}
	if len(bytes.TrimSpace(raw[dec.InputOffset():])) > 0 {
		return configstore.Document{}, errors.New("more follows the document")
	}
	d, err := configstore.ParseDocument(r.Key, r.Document)
	if err != nil {
		return configstore.Document{}, err
	}
	if sum := sumOf(d); sum != r.SHA256 {
		return configstore.Document{}, rhumb.Errorf(rhumb.KindCorrupt, "sha256 is %s, the file says %.64q", sum, r.SHA256)
	}
	return d, nil
}

func encodeFile(d configstore.Document) ([]byte, error) {
	raw, err := json.MarshalIndent(record{Key: d.Key, SHA256: sumOf(d), Document: d.JSON}, "", "  ")
	return append(raw, '\n'), err
}

// sumOf covers the key too, so that a damaged one is not another document.
func sumOf(d configstore.Document) string {
	sum := sha256.Sum256(append([]byte(d.Key+"\n"), d.JSON...))
	return hex.EncodeToString(sum[:])
}

// writeTemp writes and flushes a file beside path and gives its name.
func writeTemp(path string, raw []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), tmpMark+"*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
	if err != nil {
		os.Remove(f.Name())
	}
	return f.Name(), err
}

// syncDir makes renames in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDirs makes a document's directory below root and makes new ones durable.
func makeDirs(root, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for d := dir; len(d) > len(root); d = filepath.Dir(d) {
		if err := syncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// removeTemps removes what killed writers left in a directory. The lock is held.
func removeTemps(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // they stay, and harm nobody
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tmpMark) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
