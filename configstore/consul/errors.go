package consul

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ErrDenied says that Consul lets the token not do what is needed. Errors that wrap
// it say what to do.
var ErrDenied = errors.New("access denied")

// explain gives an error of Consul's API its kind, and says what to do where the
// cause is known. Whoever was told to stop hears why instead.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	var status api.StatusError
	if errors.As(err, &status) {
		return s.explainStatus(doing, status)
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // without the address, which stands there already
	}
	return rhumb.Errorf(rhumb.KindUnavailable, "configstore: consul at %s: %s: %w", s.address, doing, err)
}

func (s *Store) explainStatus(doing string, err api.StatusError) error {
	kind, next := rhumb.KindUnavailable, ""
	switch err.Code {
	case http.StatusForbidden, http.StatusUnauthorized:
		kind, next = rhumb.KindForbidden, tokenAdvice
	case http.StatusBadRequest:
		kind = rhumb.KindInvalid
		if strings.Contains(err.Body, "HTTP request to an HTTPS server") {
			next = httpsAdvice
		}
	case http.StatusRequestEntityTooLarge:
		kind, next = rhumb.KindTooLarge, "; Consul's limits.kv_max_value_size and limits.txn_max_req_len must be at least 524288, as they are by default"
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusNotFound:
		next = "; is there a Consul agent at this address?"
	}
	text := err.Body[:min(len(err.Body), 300)]
	if text == "" {
		text = http.StatusText(err.Code)
	}
	if kind == rhumb.KindForbidden {
		return rhumb.Errorf(kind, "configstore: consul at %s: %s: %w: %s%s", s.address, doing, ErrDenied, text, next)
	}
	return rhumb.Errorf(kind, "configstore: consul at %s: %s: status %d: %s%s", s.address, doing, err.Code, text, next)
}

// httpsAdvice ends the error of a Consul that was asked without TLS and wants it.
const httpsAdvice = "; it takes https only: config_store.consul.address https://host:port, consul://host:port?https=true of a command, or CONSUL_HTTP_SSL=true"

// tokenAdvice ends errors that another token would mend.
const tokenAdvice = "; give config_store.consul.token_file, or CONSUL_HTTP_TOKEN of a command, a token with the policy that docs/first-mesh.md shows"

// filtered is a list that may lack what the token may not read.
func (s *Store) filtered(doing string) error {
	return rhumb.Errorf(rhumb.KindForbidden, "configstore: consul at %s: %s: %w: the token may not read all documents, so that some would seem lost%s",
		s.address, doing, ErrDenied, tokenAdvice)
}

func conflict(key string) error {
	return rhumb.Errorf(rhumb.KindFenced, "%w: %s changed meanwhile", configstore.ErrConflict, key)
}
