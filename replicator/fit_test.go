package replicator

import (
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/region"
)

// The real ones fit what links need.
var (
	_ Region = (*region.Region)(nil)
	_ Policy = (*configstore.View)(nil)
)
