package configstore

import (
	"bytes"
	"strings"
	"sync"
)

// Known remembers the documents of a backend's last list, so that the next one parses
// only what changed, and gives the rest as it was: of tens of thousands of documents
// most do not change. The zero value is ready. Its methods may be called concurrently.
type Known struct {
	mu   sync.Mutex
	docs map[string]Document
}

// Parse is [ParseDocument], which it spares for content that was given before. It
// compares content, not versions: a store that went back may have others of the same.
func (k *Known) Parse(key string, raw []byte) (Document, error) {
	k.mu.Lock()
	d, ok := k.docs[key]
	k.mu.Unlock()
	if ok && bytes.Equal(d.JSON, raw) {
		return d, nil
	}
	return ParseDocument(key, raw)
}

// Keep remembers a list of all documents under a prefix, and forgets others there.
func (k *Known) Keep(docs []Document, prefix string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.docs == nil {
		k.docs = make(map[string]Document, len(docs))
	}
	for _, d := range docs {
		k.docs[d.Key] = d
	}
	if len(k.docs) == len(docs) {
		return
	}
	listed := make(map[string]struct{}, len(docs))
	for _, d := range docs {
		listed[d.Key] = struct{}{}
	}
	for key := range k.docs {
		if _, ok := listed[key]; !ok && strings.HasPrefix(key, prefix) {
			delete(k.docs, key)
		}
	}
}
