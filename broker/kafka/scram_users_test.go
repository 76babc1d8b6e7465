package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	fscram "github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/configstore"
)

func makeAdmin(t *testing.T, a broker.Accounts) {
	t.Helper()
	addUser(t, a, "root", "root's password")
	if _, err := a.PutUser(t.Context(), "root", func(u *configstore.User) error { u.Admin = true; return nil }); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) as(user, password string) *kgo.Client {
	h.Helper()
	return h.client(kgo.SASL(fscram.Auth{User: user, Pass: password}.AsSha256Mechanism()), kgo.RequestRetries(0))
}

// An administrator sets a password with Kafka's own requests, which its user then
// logs in with, and takes it back.
func TestScramUsersThroughKafka(t *testing.T) {
	h, a := startSASL(t, 0)
	makeAdmin(t, a)
	admin := kadm.NewClient(h.as("root", "root's password"))
	set := kadm.UpsertSCRAM{User: "dora", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "dora's"}
	if _, err := admin.AlterUserSCRAMs(h.ctx(), nil, []kadm.UpsertSCRAM{set, {User: "dora", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "dora's"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.as("dora", "dora's").Ping(h.ctx()); err != nil {
		t.Fatal(err)
	}
	described, err := admin.DescribeUserSCRAMs(h.ctx(), "dora")
	if err != nil || len(described["dora"].CredInfos) != 2 || described["dora"].CredInfos[0].Iterations != 4096 {
		t.Fatalf("%+v, %v", described, err)
	}
	if all, err := admin.DescribeUserSCRAMs(h.ctx()); err != nil || len(all) != 4 {
		t.Errorf("%d users, %v", len(all), err)
	}
	if u, _ := a.User("dora"); !u.HomeSpace().IsZero() {
		t.Errorf("dora is at home in %s", u.HomeSpace())
	}
	del := []kadm.DeleteSCRAM{{User: "dora", Mechanism: kadm.ScramSha256}}
	if _, err := admin.AlterUserSCRAMs(h.ctx(), del, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.as("dora", "dora's").Ping(h.ctx()); err == nil {
		t.Error("the password still works")
	}
	again, err := admin.AlterUserSCRAMs(h.ctx(), del, nil)
	if err != nil || !errors.Is(again["dora"].Err, kerr.ResourceNotFound) {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestScramUsersAreForAdministrators(t *testing.T) {
	h, _ := startSASL(t, 0)
	alice := kadm.NewClient(h.as("alice", alicesPassword))
	if _, err := alice.DescribeUserSCRAMs(h.ctx()); !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Errorf("describe: %v", err)
	}
	set := func() []kadm.UpsertSCRAM {
		return []kadm.UpsertSCRAM{{User: "alice", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "mine"}}
	}
	if _, err := alice.AlterUserSCRAMs(h.ctx(), nil, set()); !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Errorf("alter: %v", err)
	}
	open := start(t)
	if _, err := open.admin().AlterUserSCRAMs(open.ctx(), nil, set()); !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Errorf("alter on a listener that knows nobody: %v", err)
	}
}

// What cannot be stored is refused by user, and nothing of that user changes.
func TestScramUsersAreChecked(t *testing.T) {
	h, a := startSASL(t, 0)
	makeAdmin(t, a)
	c := h.dial()
	c.login("root", "root's password")
	up := func(name string, mechanism int8, iterations int32, salted int) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = name, mechanism, iterations, []byte("salt"), make([]byte, salted)
		return u
	}
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	req.Upsertions = append(req.Upsertions, up("few", 1, 4095, 32), up("many", 1, 16385, 32), up("short", 2, 4096, 32), up("odd", 3, 4096, 32),
		up("no name", 1, 4096, 32), up("twice", 1, 4096, 32), up("twice", 1, 5000, 32), up("half", 1, 4096, 32), up("half", 2, 1, 64), up("good", 1, 4096, 32))
	want := map[string]int16{"few": codeUnacceptableCredential, "many": codeUnacceptableCredential, "short": codeUnacceptableCredential,
		"odd": codeUnsupportedSaslMechanism, "no name": codeUnacceptableCredential, "twice": codeDuplicateResource, "half": codeUnacceptableCredential, "good": codeNone}
	resp := ask[*kmsg.AlterUserSCRAMCredentialsResponse](c, req)
	if len(resp.Results) != len(want) {
		t.Errorf("%d results", len(resp.Results))
	}
	for _, r := range resp.Results {
		if r.ErrorCode != want[r.User] || (r.ErrorCode != codeNone) != (r.ErrorMessage != nil) {
			t.Errorf("%s: %d, want %d", r.User, r.ErrorCode, want[r.User])
		}
	}
	if _, ok := a.User("half"); ok {
		t.Error("half of a user's changes happened")
	}
	describe := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, name := range []string{"good", "nobody", "bob", "bob"} {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = name
		describe.Users = append(describe.Users, u)
	}
	found := map[string]int16{}
	for _, r := range ask[*kmsg.DescribeUserSCRAMCredentialsResponse](c, describe).Results {
		found[r.User] = r.ErrorCode
	}
	if len(found) != 3 || found["good"] != codeNone || found["nobody"] != codeResourceNotFound || found["bob"] != codeDuplicateResource {
		t.Errorf("%v", found)
	}
}
