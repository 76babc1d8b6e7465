package consul

import (
	"context"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rhumbmq/rhumb/configstore"
)

const (
	// retryMin and retryMax bound the pause after a query that failed. It doubles,
	// and is drawn between its half and its whole, so that regions that lost their
	// Consul at once do not come back at once.
	retryMin, retryMax = 250 * time.Millisecond, 15 * time.Second
	// watchPause is between two queries: a store that changes all the time costs a
	// list ten times a second at most. One of many documents, which takes long to
	// read, is read for a part of the time only: the pause is watchShare times what an
	// answer took beside its wait, up to watchPauseMost.
	watchPause     = 100 * time.Millisecond
	watchShare     = 4
	watchPauseMost = 2 * time.Second
	// answerTime is what a query may take beside its wait.
	answerTime = 10 * time.Second
)

// Watch implements [configstore.Store] with blocking queries. It tries again for
// itself when one fails, so it ends with its context or the handle only.
func (s *Store) Watch(ctx context.Context, prefix string, fn func([]configstore.Document)) error {
	ctx, done := s.call(ctx)
	defer done()
	var last []configstore.Document
	told, index, retry := false, uint64(0), retryMin
	for ctx.Err() == nil {
		docs, next, took, err := s.query(ctx, prefix, index)
		pause := min(max(watchPause, watchShare*took), watchPauseMost)
		if err != nil {
			index = 0 // who knows what happened meanwhile
			pause = retry/2 + time.Duration(s.jitter()*float64(retry/2))
			retry = min(2*retry, retryMax)
		} else {
			index, retry = following(index, next), retryMin
			if !told || !sameDocuments(docs, last) {
				told, last = true, docs
				fn(docs)
			}
		}
		sleep(ctx, pause)
	}
	return context.Cause(ctx)
}

// following gives the index to wait for next. One that went back, because Consul
// was restored or is another one, begins anew: it would not be passed for long.
func following(index, next uint64) uint64 {
	if next < index || next == 0 {
		return 0
	}
	return next
}

// query asks what lies under the prefix once the index is passed, or the wait is
// over, which Consul draws out by up to a sixteenth.
func (s *Store) query(ctx context.Context, prefix string, index uint64) (docs []configstore.Document, next uint64, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.wait+s.wait/16+answerTime)
	defer cancel()
	q := (&api.QueryOptions{WaitIndex: index, WaitTime: s.wait}).WithContext(ctx)
	var came atomic.Int64 // when the answer began, Unix ns: what is before it is the wait
	q = q.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { came.Store(time.Now().UnixNano()) }}))
	docs, meta, err := s.list(ctx, prefix, q)
	if err != nil {
		return nil, 0, 0, err
	}
	return docs, meta.LastIndex, time.Since(time.Unix(0, came.Load())), nil
}

// sleep waits, unless ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// sameDocuments compares two lists by key, version and content.
func sameDocuments(a, b []configstore.Document) bool {
	return slices.EqualFunc(a, b, func(x, y configstore.Document) bool {
		return x.Key == y.Key && x.Version == y.Version && string(x.JSON) == string(y.JSON)
	})
}
