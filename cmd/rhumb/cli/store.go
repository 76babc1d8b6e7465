package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// storeHelp explains --config-store.
const storeHelp = "the configuration store: a directory, or consul://host:port/prefix, with '?https=true&ca=FILE&token_file=FILE' as needed (consul:// alone: as the CONSUL_* environment says)"

// openStore opens the store that --config-store names. One that must exist holds a
// mesh: a misspelled name makes nothing.
func openStore(name string, existing bool) (configstore.Store, error) {
	if !strings.HasPrefix(name, "consul:") {
		if rhumb.IsURL(name) {
			return nil, &usageError{fmt.Errorf("--config-store %s is neither a directory nor consul://…: a Consul that takes https only is consul://host:port?https=true&ca=FILE", name)}
		}
		return embedded.Open(embedded.Config{Dir: name, Existing: existing})
	}
	cfg, err := consul.ParseURL(name)
	if err != nil {
		return nil, err
	}
	return consul.Open(cfg)
}

// storeAway says what to do about a store that does not answer.
func storeAway(name string, err error) error {
	if rhumb.KindOf(err) != rhumb.KindUnavailable {
		return err
	}
	return rhumb.Errorf(rhumb.KindUnavailable, "%w; start the configuration store, or correct --config-store %s, and say it again", err, name)
}

// noMesh says what an empty store means to a command that wants one with a mesh.
func noMesh(name string, err error) error {
	if errors.Is(err, configstore.ErrNoMesh) {
		return rhumb.Errorf(rhumb.KindNotFound, "there is no mesh in %s: name the store that the regions' config_store names", name)
	}
	return err
}
