package api

import (
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

// UserList is every user of the mesh.
type UserList struct {
	Users []User `json:"users"`
}

// User is one user of the Kafka listeners. What the password's verifiers are is
// never told.
type User struct {
	Name       rhumb.UserName    `json:"name"`
	Admin      bool              `json:"admin"`
	Grants     []rhumb.Space     `json:"grants"`
	Home       string            `json:"home"`       // tenant/namespace of bare names, "" for none
	Mechanisms []scram.Mechanism `json:"mechanisms"` // that the user has a password for
	UpdatedAt  time.Time         `json:"updated_at"`
	UpdatedBy  string            `json:"updated_by"`
	// UpdatedCaller is on whose behalf; zero: not known.
	UpdatedCaller configstore.Caller `json:"updated_caller,omitzero"`
}

// UserChange is what is to change of a user, or a whole new one. What it leaves
// out stays.
type UserChange struct {
	Name rhumb.UserName `json:"name"`
	// Create makes a user and fails if there is one; else there must be one.
	Create bool  `json:"create,omitzero"`
	Admin  *bool `json:"admin,omitzero"`
	// Grant and Revoke are namespaces that are added and taken away, in this order.
	Grant  []rhumb.Space `json:"grant,omitzero"`
	Revoke []rhumb.Space `json:"revoke,omitzero"`
	Home   *rhumb.Space  `json:"home,omitzero"`
	// SHA256 and SHA512 are verifiers of a new password. They replace both.
	SHA256 *scram.Verifier `json:"sha256,omitzero"`
	SHA512 *scram.Verifier `json:"sha512,omitzero"`
}
