package configstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Keeper keeps a View's last good copy: one value that is replaced as a whole.
// Its methods are not called concurrently.
type Keeper interface {
	// Load gives what was saved last, nil if nothing ever was.
	Load() ([]byte, error)
	// Save replaces it, durably, all or nothing.
	Save([]byte) error
}

// FileKeeper gives a Keeper in a file. Save writes beside it, flushes, renames
// and flushes the directory, which must exist.
func FileKeeper(path string) Keeper { return fileKeeper(path) }

type fileKeeper string

// maxKeptBytes bounds what Load reads: far above 100,000 topic documents.
const maxKeptBytes = 1 << 30

func (k fileKeeper) Load() ([]byte, error) {
	f, err := os.Open(string(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxKeptBytes))
}

func (k fileKeeper) Save(b []byte) error {
	path := string(k)
	tmp := path + ".tmp" // one View per data directory: no second writer
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// MemoryKeeper is a Keeper in memory, for tests and simulations; it outlives the
// View as a disk does. The zero value is ready.
type MemoryKeeper struct {
	mu   sync.Mutex
	kept []byte
	err  error
}

// Load implements [Keeper].
func (k *MemoryKeeper) Load() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.kept), nil
}

// Save implements [Keeper].
func (k *MemoryKeeper) Save(b []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.kept = bytes.Clone(b)
	return nil
}

// SetError makes Save fail with err until it is called with nil.
func (k *MemoryKeeper) SetError(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// kept is the last good copy: the highest version seen of each document, and for
// those that this version of Rhumb refuses, the one before that is in force.
type kept struct {
	Seen    []keptDocument `json:"seen"`
	InForce []keptDocument `json:"in_force,omitempty"`
}

type keptDocument struct {
	Key      string          `json:"key"`
	Document json.RawMessage `json:"document"`
}

// keptHeader starts the copy's first line; the SHA-256 of all that follows the
// line ends it.
const keptHeader = "rhumb last good copy 1 "

func encodeKept(k kept) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(k); err != nil {
		return nil, err
	}
	return frameKept(body.Bytes()), nil
}

func frameKept(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append([]byte(keptHeader+hex.EncodeToString(sum[:])+"\n"), body...)
}

// decodeKept reads a copy into the documents seen and those in force instead.
func decodeKept(b []byte) (seen, inForce map[string]Document, err error) {
	rest, ok := bytes.CutPrefix(b, []byte(keptHeader))
	line, body, cut := bytes.Cut(rest, []byte("\n"))
	if !ok || !cut {
		return nil, nil, errors.New("first line is not that of a last good copy of this version")
	}
	if sum := sha256.Sum256(body); string(line) != hex.EncodeToString(sum[:]) {
		return nil, nil, errors.New("checksum differs")
	}
	var k kept
	if err := json.Unmarshal(body, &k); err != nil {
		return nil, nil, err
	}
	if seen, err = parseKept(k.Seen); err != nil {
		return nil, nil, err
	}
	inForce, err = parseKept(k.InForce)
	return seen, inForce, err
}

func parseKept(list []keptDocument) (map[string]Document, error) {
	out := make(map[string]Document, len(list))
	for _, kd := range list {
		d, err := ParseDocument(kd.Key, kd.Document)
		if err != nil {
			return nil, err
		}
		if _, twice := out[d.Key]; twice {
			return nil, fmt.Errorf("document %s stands twice", d.Key)
		}
		out[d.Key] = d
	}
	return out, nil
}

// damagedCopy is what a View says of a copy that it cannot read. To go on without
// it would forget which versions were seen, so that is left to an operator.
func damagedCopy(err error) error {
	return rhumb.Errorf(rhumb.KindCorrupt, "configstore: last good copy is damaged: %w; if the store is known to be whole, move the file away to take everything from the store", err)
}
