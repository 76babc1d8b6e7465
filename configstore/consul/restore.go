package consul

import (
	"context"
	"errors"

	"github.com/hashicorp/consul/api"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	// maxOperations is what Consul takes in one transaction.
	maxOperations = 64
	// maxTransactionBytes is what the values of one transaction may take in its
	// request, as base64: below Consul's limit of 512 KB for the whole request.
	maxTransactionBytes = 400 << 10
	// operationBytes is what an operation takes beside its key and value, at most.
	operationBytes = 128
)

// Restore implements [configstore.Restorer]. Up to 64 documents go in one
// transaction; of several transactions, those before one that fails are done.
func (s *Store) Restore(ctx context.Context, list []configstore.Replacement) error {
	ctx, done := s.call(ctx)
	defer done()
	var batch []operation
	size := 0
	for _, r := range list {
		op, err := s.operation(ctx, r)
		if err != nil {
			return err
		}
		if len(batch) == maxOperations || len(batch) > 0 && size+op.size() > maxTransactionBytes {
			if err := s.commit(ctx, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch = append(batch, op)
		size += op.size()
	}
	return s.commit(ctx, batch)
}

// operation is one write with compare-and-set.
type operation struct {
	document configstore.Document
	index    uint64 // 0: nothing may be there
}

func (o operation) size() int { return len(o.document.JSON)*4/3 + len(o.document.Key) + operationBytes }

// operation finds the index to compare with: that of what the replacement says is
// stored.
func (s *Store) operation(ctx context.Context, r configstore.Replacement) (operation, error) {
	if err := configstore.CheckReplacement(r); err != nil {
		return operation{}, err
	}
	stored, index, err := s.get(ctx, r.Document.Key)
	switch {
	case errors.Is(err, configstore.ErrNotFound) && r.Was == nil:
		return operation{r.Document, 0}, nil
	case errors.Is(err, configstore.ErrNotFound), err == nil && (r.Was == nil || r.Was.Hash() != stored.Hash()):
		return operation{}, conflict(r.Document.Key)
	case err != nil:
		return operation{}, err
	}
	return operation{r.Document, index}, nil
}

// commit stores a batch, all or nothing. A document that fills a transaction goes
// without one: a plain value may be larger.
func (s *Store) commit(ctx context.Context, batch []operation) error {
	if len(batch) == 0 {
		return nil
	}
	if len(batch) == 1 {
		return s.cas(ctx, batch[0].document, batch[0].index)
	}
	var ops api.TxnOps
	for _, o := range batch {
		ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{
			Verb: api.KVCAS, Key: s.prefix + o.document.Key, Value: o.document.JSON, Index: o.index,
		}})
	}
	doing := "put " + batch[0].document.Key + " and others"
	ok, resp, _, err := s.client.Txn().Txn(ops, new(api.QueryOptions).WithContext(ctx))
	if err != nil {
		return s.explain(ctx, doing, err)
	}
	if ok {
		return nil
	}
	for _, e := range resp.Errors {
		if e.OpIndex >= 0 && e.OpIndex < len(batch) {
			return rhumb.Errorf(rhumb.KindFenced, "%w: %s: %s", configstore.ErrConflict, batch[e.OpIndex].document.Key, e.What)
		}
	}
	return rhumb.Errorf(rhumb.KindUnavailable, "configstore: consul at %s: %s: not done, without a reason", s.address, doing)
}
