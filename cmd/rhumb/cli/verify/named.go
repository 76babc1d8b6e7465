package verify

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rhumbmq/rhumb/broker/admin/api"
)

// named is a Source whose name stands in what is wrong with its records.
type named struct {
	Source
	name string
}

func (n named) Digest(ctx context.Context, q api.DigestQuery) (Stream, error) {
	s, err := n.Source.Digest(ctx, q)
	if err != nil {
		return nil, n.tell(err)
	}
	return namedStream{s, n}, nil
}

func (n named) tell(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("region %s: %w", n.name, err)
}

type namedStream struct {
	Stream
	of named
}

func (s namedStream) Next() (api.DigestLine, error) {
	line, err := s.Stream.Next()
	return line, s.of.tell(err)
}
