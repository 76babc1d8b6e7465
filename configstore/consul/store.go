package consul

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Store is a [configstore.Store] in Consul.
type Store struct {
	client  *api.Client
	door    *door
	address string
	prefix  string // "" or ends in /
	wait    time.Duration
	jitter  func() float64 // 0 to 1
	known   configstore.Known

	life context.Context // ends with Close
	end  context.CancelCauseFunc
}

// Open makes a handle. It does not connect: a Consul that is down is told by the
// first call. An error means that the configuration, or a file that it names,
// cannot work.
func Open(cfg Config) (*Store, error) {
	if err := CheckPrefix(cfg.Prefix); err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "configstore: consul: prefix %w", err)
	}
	e, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(e.client)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "configstore: consul: %w", err)
	}
	s := &Store{client: client, door: e.door, address: e.address, wait: cmp.Or(max(cfg.WaitTime, 0), time.Minute), jitter: rand.Float64}
	if cfg.Prefix != "" {
		s.prefix = strings.TrimSuffix(cfg.Prefix, "/") + "/"
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s, nil
}

// Name implements [configstore.Named].
func (s *Store) Name() string { return "consul at " + s.address }

// call ties a call to the handle's life.
func (s *Store) call(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })
	if s.life.Err() != nil {
		cancel(context.Cause(s.life)) // at once, for a call after Close
	}
	return ctx, func() { stop(); cancel(nil) }
}

// consistent makes a read that no other finished call is ahead of.
func consistent(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

// Get implements [configstore.Store].
func (s *Store) Get(ctx context.Context, key string) (configstore.Document, error) {
	ctx, done := s.call(ctx)
	defer done()
	d, _, err := s.get(ctx, key)
	return d, err
}

// get gives a document and the index to compare with, which is 0 with
// [configstore.ErrNotFound].
func (s *Store) get(ctx context.Context, key string) (configstore.Document, uint64, error) {
	if err := configstore.CheckKey(key); err != nil {
		return configstore.Document{}, 0, err
	}
	if ctx.Err() != nil {
		return configstore.Document{}, 0, context.Cause(ctx)
	}
	pair, _, err := s.client.KV().Get(s.prefix+key, consistent(ctx))
	if err != nil {
		return configstore.Document{}, 0, s.explain(ctx, "get "+key, err)
	}
	if pair == nil {
		return configstore.Document{}, 0, configstore.NotFound(key)
	}
	d, err := configstore.ParseDocument(key, pair.Value)
	return d, pair.ModifyIndex, err
}

// List implements [configstore.Store].
func (s *Store) List(ctx context.Context, prefix string) ([]configstore.Document, error) {
	ctx, done := s.call(ctx)
	defer done()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	docs, _, err := s.list(ctx, prefix, consistent(ctx))
	return docs, err
}

func (s *Store) list(ctx context.Context, prefix string, q *api.QueryOptions) ([]configstore.Document, *api.QueryMeta, error) {
	doing := "list " + s.prefix + prefix
	pairs, meta, err := s.client.KV().List(s.prefix+prefix, q)
	if err != nil {
		return nil, nil, s.explain(ctx, doing, err)
	}
	if s.isFiltered(pairs, meta) {
		return nil, nil, s.filtered(doing)
	}
	docs := make([]configstore.Document, 0, len(pairs))
	for _, p := range pairs {
		key := strings.TrimPrefix(p.Key, s.prefix)
		if strings.HasSuffix(key, "/") && len(p.Value) == 0 {
			continue // a folder, as Consul's own pages make them
		}
		d, err := s.known.Parse(key, p.Value)
		if err != nil {
			return nil, nil, err
		}
		docs = append(docs, d)
	}
	s.known.Keep(docs, prefix)
	slices.SortFunc(docs, func(a, b configstore.Document) int { return strings.Compare(a.Key, b.Key) })
	return docs, meta, nil
}

// isFiltered reports whether an answer may lack documents. To who shows no token
// Consul does not say so; an empty answer under default deny is taken for it.
func (s *Store) isFiltered(pairs api.KVPairs, meta *api.QueryMeta) bool {
	if meta.ResultsFilteredByACLs {
		return true
	}
	token, _ := s.door.token.get() // an error would have ended the request
	return len(pairs) == 0 && token == "" && meta.DefaultACLPolicy == "deny"
}

// Put implements [configstore.Store].
func (s *Store) Put(ctx context.Context, d configstore.Document) error {
	ctx, done := s.call(ctx)
	defer done()
	stored, index, err := s.get(ctx, d.Key)
	if err != nil && !errors.Is(err, configstore.ErrNotFound) {
		return err // also if something that is no document lies there
	}
	if err := configstore.CheckPut(d, stored.Version); err != nil {
		return err
	}
	return s.cas(ctx, d, index)
}

// cas stores a document if the key was not changed since it had the index. Where the
// servers cannot say what became of it, it finds out.
func (s *Store) cas(ctx context.Context, d configstore.Document, index uint64) error {
	pair := &api.KVPair{Key: s.prefix + d.Key, Value: d.JSON, ModifyIndex: index}
	for end := time.Now().Add(electionTime); ; {
		ok, _, err := s.client.KV().CAS(pair, new(api.WriteOptions).WithContext(ctx))
		switch {
		case err == nil && !ok:
			return conflict(d.Key)
		case err == nil:
			return nil
		case unanswered(ctx, err):
			return rhumb.Errorf(rhumb.KindTimeout, "configstore: %s has not answered that it stored %s: %w", s.Name(), d.Key, configstore.ErrMaybeStored)
		case !leaderless(err):
			return s.explain(ctx, "put "+d.Key, err)
		}
		stored, now, isKnown := s.getSettled(ctx, d.Key, end)
		switch {
		case !isKnown:
			return s.explain(ctx, "put "+d.Key, err)
		case bytes.Equal(stored.JSON, d.JSON):
			return nil // the lost answer was yes
		case now != index:
			return conflict(d.Key)
		}
	}
}

// unanswered reports whether a put was sent and nobody says what became of it. Who
// gave up asking by himself is another matter.
func unanswered(ctx context.Context, err error) bool {
	return errors.Is(err, errSilent) || errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// Close implements [configstore.Store].
func (s *Store) Close() error {
	s.end(rhumb.Errorf(rhumb.KindUnavailable, "%w", configstore.ErrClosed))
	if t, ok := s.door.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return nil
}
