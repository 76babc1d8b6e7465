package broker

import (
	"errors"
	"slices"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Policy decides what the mesh's documents allow in this region.
type Policy interface {
	// CheckTopic gives an error of kind forbidden or not found if no such topic
	// may exist in this region.
	CheckTopic(rhumb.Topic) error
	// CheckProduce gives an error that wraps [ErrStandby] if producers may not write
	// to the topic in this region. It is asked for each batch.
	CheckProduce(rhumb.Topic) error
	// PartitionLimit gives how many partitions all topics of the topic's namespace may
	// have in this region, 0: no limit.
	PartitionLimit(rhumb.Topic) int
}

// ErrStandby refuses producers in a region that has another role than they need.
var ErrStandby = errors.New("broker: standby")

// Mesh is the Policy and the Names of a region that follows a configuration store.
type Mesh struct {
	View *configstore.View
	Self rhumb.RegionName
}

var _ Policy = Mesh{}

// CheckTopic implements [Policy]: tenant and namespace must exist, and the tenant
// must be allowed in this region. public/default exists everywhere.
func (m Mesh) CheckTopic(t rhumb.Topic) error {
	tenant, ok := m.View.Tenant(t.Tenant)
	if ok && !tenant.Allows(m.Self) {
		return rhumb.Errorf(rhumb.KindForbidden, "tenant %s is not allowed in region %s", t.Tenant, m.Self)
	}
	if t.Tenant == rhumb.DefaultTenant && t.Namespace == rhumb.DefaultNamespace {
		return nil
	}
	if _, has := m.View.Namespace(t.Tenant, t.Namespace); !ok || !has {
		return rhumb.Errorf(rhumb.KindNotFound, "namespace %s/%s does not exist%s: see which there are with 'rhumb namespace list'", t.Tenant, t.Namespace, m.likeNamespace(t))
	}
	return nil
}

// likeNamespace names the namespaces of a topic's tenant that may have been meant, and
// public/default where it is near.
func (m Mesh) likeNamespace(t rhumb.Topic) string {
	mine := slices.DeleteFunc(m.View.Namespaces(), func(n configstore.Namespace) bool { return n.Tenant != t.Tenant })
	if t.Tenant == rhumb.DefaultTenant {
		mine = append(mine, configstore.Namespace{Tenant: rhumb.DefaultTenant, Name: rhumb.DefaultNamespace})
	}
	name := func(n *configstore.Namespace) string { return string(n.Tenant) + "/" + string(n.Name) }
	return nearest.Hint(string(t.Tenant)+"/"+string(t.Namespace), mine, name)
}

// PartitionLimit implements [Policy]: what the namespace's document says.
func (m Mesh) PartitionLimit(t rhumb.Topic) int {
	n, _ := m.View.Namespace(t.Tenant, t.Namespace)
	return n.PartitionLimit()
}

// CheckProduce implements [Policy]: in a namespace with roles only the active
// region takes producers (I14).
func (m Mesh) CheckProduce(t rhumb.Topic) error {
	active := m.View.Active(t.Tenant, t.Namespace)
	if active == "" || active == m.Self {
		return nil
	}
	return rhumb.Errorf(rhumb.KindForbidden, "%w: region %s takes no producers in namespace %s/%s, whose active region is %s: produce there",
		ErrStandby, m.Self, t.Tenant, t.Namespace, active)
}
