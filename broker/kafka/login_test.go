package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	fsasl "github.com/twmb/franz-go/pkg/sasl"
	fplain "github.com/twmb/franz-go/pkg/sasl/plain"
	fscram "github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/broker/sasl"
	"github.com/rhumbmq/rhumb/broker/sasl/sasltest"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

var shop = rhumb.Space{Tenant: "acme", Namespace: "shop"}

const alicesPassword = "wonder=land, of course"

// newAccounts makes a mesh with the namespace acme/shop.
func newAccounts(t testing.TB) broker.Accounts {
	t.Helper()
	view, err := configstore.OpenView(t.Context(), configstore.ViewConfig{Store: embedded.NewMemory(), Keeper: &configstore.MemoryKeeper{}, CreateMesh: true})
	if err != nil {
		t.Fatal(err)
	}
	w := view.Writer("test")
	if _, err := w.PutTenant(t.Context(), "acme", func(*configstore.Tenant) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := w.PutNamespace(t.Context(), "acme", "shop", func(*configstore.Namespace) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return broker.Accounts{View: view, By: "test"}
}

func addUser(t testing.TB, a broker.Accounts, name rhumb.UserName, password string, grants ...rhumb.Space) {
	t.Helper()
	_, err := a.PutUser(context.Background(), name, func(u *configstore.User) error {
		u.Grants = grants
		for _, m := range configstore.ScramMechanisms {
			v, err := scram.New(m, password, scram.MinIterations)
			if err != nil {
				return err
			}
			u.Scram.Set(m, &v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// startSASL serves alice, who may work in public/default and acme/shop, and bob,
// who may work nowhere.
func startSASL(t *testing.T, session time.Duration) (*harness, broker.Accounts) {
	t.Helper()
	a := newAccounts(t)
	addUser(t, a, "alice", alicesPassword, rhumb.DefaultSpace, shop)
	addUser(t, a, "bob", "bob's")
	h := &harness{TB: t, region: brokertest.New(), door: Listener{SASL: &SASL{Mechanisms: sasl.Mechanisms(), Session: session}}}
	h.serve(h.region, func(_ *broker.Config, c *Config) { c.Accounts, c.FailedLoginDelay = a, time.Millisecond })
	return h, a
}

func handshakeOf(version int16, mechanism string) *kmsg.SASLHandshakeRequest {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = version, mechanism
	return req
}

func authenticateOf(token []byte) *kmsg.SASLAuthenticateRequest {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, token
	return req
}

func (c *rawConn) shake(mechanism string) {
	c.h.Helper()
	if resp := ask[*kmsg.SASLHandshakeResponse](c, handshakeOf(1, mechanism)); resp.ErrorCode != codeNone || len(resp.SupportedMechanisms) != 3 {
		c.h.Fatalf("handshake: %+v", resp)
	}
}

func (c *rawConn) token(token []byte) *kmsg.SASLAuthenticateResponse {
	c.h.Helper()
	return ask[*kmsg.SASLAuthenticateResponse](c, authenticateOf(token))
}

// login logs in by PLAIN.
func (c *rawConn) login(user, password string) *kmsg.SASLAuthenticateResponse {
	c.h.Helper()
	c.shake(sasl.Plain)
	return c.token(sasltest.Plain(user, password))
}

func TestFranzLogsInByEachMechanism(t *testing.T) {
	h, _ := startSASL(t, 0)
	h.topic("acme/shop/t", 1, nil)
	for name, m := range map[string]fsasl.Mechanism{
		"plain":  fplain.Auth{User: "alice@acme/shop", Pass: alicesPassword}.AsMechanism(),
		"sha256": fscram.Auth{User: "alice@acme/shop", Pass: alicesPassword}.AsSha256Mechanism(),
		"sha512": fscram.Auth{User: "alice@acme/shop", Pass: alicesPassword}.AsSha512Mechanism(),
	} {
		t.Run(name, func(t *testing.T) {
			c := h.client(kgo.SASL(m), kgo.DefaultProduceTopic("t"))
			if err := c.ProduceSync(h.ctx(), kgo.StringRecord(name)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		})
	}
	c := h.client(kgo.SASL(fscram.Auth{User: "alice", Pass: alicesPassword}.AsSha512Mechanism()), kgo.ConsumeTopics("persistent://acme/shop/t"))
	h.consume(c, 3)
	wrong := h.client(kgo.SASL(fplain.Auth{User: "alice", Pass: "guess"}.AsMechanism()), kgo.RequestRetries(0))
	if err := wrong.Ping(h.ctx()); err == nil || !strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") {
		t.Fatalf("wrong password: %v", err)
	}
}

// A client whose login lasts for a short time logs in again and again on its
// connection, while it works.
func TestFranzLogsInAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("a login lasts seconds")
	}
	h, _ := startSASL(t, 3*time.Second) // franz-go begins again a second or more before the end
	h.topic("t", 1, nil)
	c := h.client(kgo.SASL(fscram.Auth{User: "alice", Pass: alicesPassword}.AsSha256Mechanism()), kgo.DefaultProduceTopic("t"))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 1200 { // until more logins than connections were seen
		if err := c.ProduceSync(h.ctx(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if now := h.server.Stats(); now.Logins > now.Accepted {
			return
		}
		<-tick.C
	}
	t.Fatalf("never logged in again: %+v", h.server.Stats())
}

func TestP161LoginWhereNoneIsAsked(t *testing.T) {
	plain := start(t)
	c := plain.dial()
	if resp := ask[*kmsg.SASLHandshakeResponse](c, handshakeOf(1, sasl.Plain)); resp.ErrorCode != codeIllegalSaslState {
		t.Errorf("handshake on a plain listener: %+v", resp)
	}
	if resp := c.token(sasltest.Plain("alice", "x")); resp.ErrorCode != codeIllegalSaslState {
		t.Errorf("token on a plain listener: %+v", resp)
	}
	ask[*kmsg.MetadataResponse](c, metadataRequest()) // it goes on

	h, _ := startSASL(t, 0)
	h.topic("t", 1, nil)
	for _, req := range []kmsg.Request{metadataRequest("t"), produceRequestOf("t", 1, oneRecord()), fetchRequest("t", 0), authenticateOf(sasltest.Plain("alice", alicesPassword))} {
		c := h.dial()
		c.send(req)
		c.closed()
	}
	if s, _ := h.region.State(h.ref("t")); s.End != 0 {
		t.Error("a stranger's batch was stored")
	}
}

func TestP153ApiVersionsBeforeAndAfterLogin(t *testing.T) {
	h, _ := startSASL(t, 0)
	c := h.dial()
	versions := func() {
		t.Helper()
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, "a", "1"
		if resp := ask[*kmsg.ApiVersionsResponse](c, req); resp.ErrorCode != 0 || len(resp.ApiKeys) == 0 {
			t.Fatalf("%+v", resp)
		}
		req.Version = 99
		b := c.receive(c.send(req))
		if code := int16(binary.BigEndian.Uint16(b)); code != codeUnsupportedVersion {
			t.Fatalf("version 99: code %d", code)
		}
	}
	versions()
	if resp := c.login("alice", alicesPassword); resp.ErrorCode != codeNone {
		t.Fatalf("%+v", resp)
	}
	versions()
	ask[*kmsg.MetadataResponse](c, metadataRequest())
	c = h.dial() // between the handshake and its end nothing else comes
	c.shake(sasl.ScramSHA256)
	c.send(kmsg.NewPtrApiVersionsRequest())
	c.closed()
}

// After SaslHandshake 0 tokens come bare; then requests again.
func TestP156HandshakeVersionZero(t *testing.T) {
	h, _ := startSASL(t, 0)
	raw := func(c *rawConn, token []byte) []byte {
		t.Helper()
		c.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...))
		var size [4]byte
		if _, err := io.ReadFull(c.nc, size[:]); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c.nc, b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	c := h.dial()
	ask[*kmsg.SASLHandshakeResponse](c, handshakeOf(0, sasl.Plain))
	if b := raw(c, sasltest.Plain("alice", alicesPassword)); len(b) != 0 {
		t.Fatalf("answer %q", b)
	}
	ask[*kmsg.MetadataResponse](c, metadataRequest())

	c = h.dial()
	ask[*kmsg.SASLHandshakeResponse](c, handshakeOf(0, sasl.ScramSHA512))
	client := sasltest.New(sasl.ScramSHA512, "alice", alicesPassword)
	final, err := client.Final(raw(c, client.First()))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Check(raw(c, final)); err != nil {
		t.Fatal(err)
	}
	ask[*kmsg.MetadataResponse](c, metadataRequest())

	for _, token := range []string{"\x00\x00\x00\x0c\x00alice\x00guess", "\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x7f\xff\xff\xff", string(frame(metadataRequest(), 1))} {
		c := h.dial()
		ask[*kmsg.SASLHandshakeResponse](c, handshakeOf(0, sasl.Plain))
		c.write([]byte(token))
		c.closed()
	}
}

// A wrong proof gets its answer, and then the connection is gone whatever comes.
func TestP158WrongProofOpensNothing(t *testing.T) {
	h, _ := startSASL(t, 0)
	for name, user := range map[string]string{"wrong password": "alice", "no such user": "nobody"} {
		c := h.dial()
		c.shake(sasl.ScramSHA256)
		client := sasltest.New(sasl.ScramSHA256, user, "guess")
		challenge := c.token(client.First())
		if challenge.ErrorCode != codeNone {
			t.Fatalf("%s: %+v", name, challenge)
		}
		final, err := client.Final(challenge.SASLAuthBytes)
		if err != nil {
			t.Fatal(err)
		}
		id := c.send(authenticateOf(final))
		c.nc.Write(frame(metadataRequest(), 99)) // ignoring the error; it may be closed already
		resp := decodeAnswer[*kmsg.SASLAuthenticateResponse](c, authenticateOf(nil), c.receive(id))
		if resp.ErrorCode != codeSaslAuthenticationFailed || *resp.ErrorMessage != sasl.ErrCredentials.Error() || len(resp.SASLAuthBytes) != 0 {
			t.Errorf("%s: %+v", name, resp)
		}
		c.closed()
	}
	if n := h.server.Stats().LoginsFailed; n != 2 {
		t.Errorf("%d failed logins are counted", n)
	}
}

func TestUnknownMechanismIsNamed(t *testing.T) {
	h, _ := startSASL(t, 0)
	c := h.dial()
	resp := ask[*kmsg.SASLHandshakeResponse](c, handshakeOf(1, "GSSAPI"))
	if resp.ErrorCode != codeUnsupportedSaslMechanism || len(resp.SupportedMechanisms) != 3 {
		t.Errorf("%+v", resp)
	}
	c.closed()
}

// The name may ask for a namespace, which is given after the proof, and where it
// was granted.
func TestLoginChoosesAGrantedNamespace(t *testing.T) {
	h, a := startSASL(t, 0)
	h.topic("acme/shop/orders", 1, nil)
	h.topic("other", 1, nil)
	list := func(c *rawConn) string {
		t.Helper()
		req := metadataRequest()
		req.Topics = nil
		var names []string
		for _, topic := range ask[*kmsg.MetadataResponse](c, req).Topics {
			names = append(names, *topic.Topic)
		}
		return strings.Join(names, " ")
	}
	for login, want := range map[string]string{"alice": "other", "alice@acme/shop": "orders", "alice@public/default": "other", "bob": ""} {
		c := h.dial()
		password := alicesPassword
		if login == "bob" {
			password = "bob's"
		}
		if resp := c.login(login, password); resp.ErrorCode != codeNone {
			t.Fatalf("%s: %+v", login, resp)
		}
		if got := list(c); got != want {
			t.Errorf("%s sees %q, want %q", login, got, want)
		}
	}
	bob := h.dial()
	resp := bob.login("bob@acme/shop", "bob's")
	if resp.ErrorCode != codeSaslAuthenticationFailed || !strings.Contains(*resp.ErrorMessage, "no grant for acme/shop") {
		t.Errorf("%+v", resp)
	}
	bob.closed()

	// A grant counts from the next request on, and so does taking it back.
	bob = h.dial()
	bob.login("bob", "bob's")
	produce := func() int16 {
		t.Helper()
		req := produceRequestOf("persistent://acme/shop/orders", 1, oneRecord())
		return ask[*kmsg.ProduceResponse](bob, req).Topics[0].Partitions[0].ErrorCode
	}
	grant := func(to ...rhumb.Space) {
		t.Helper()
		if _, err := a.PutUser(t.Context(), "bob", func(u *configstore.User) error { u.Grants = to; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if got := produce(); got != codeTopicAuthorizationFailed {
		t.Errorf("without a grant: %d", got)
	}
	grant(shop)
	if got := produce(); got != codeNone || list(bob) != "orders" {
		t.Errorf("with a grant: %d, sees %q", got, list(bob))
	}
	grant()
	if got := produce(); got != codeTopicAuthorizationFailed {
		t.Errorf("after it was taken back: %d", got)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{"g"}
	if got := ask[*kmsg.FindCoordinatorResponse](bob, find).Coordinators[0].ErrorCode; got != codeGroupAuthorizationFailed {
		t.Errorf("a group without a namespace: %d", got)
	}
}

// A user who is deleted is cut off, also while it waits for records.
func TestDeletedUserIsCutOff(t *testing.T) {
	h, a := startSASL(t, 0)
	h.topic("t", 1, nil)
	waiting, other := h.dial(), h.dial()
	waiting.login("alice", alicesPassword)
	other.login("bob", "bob's")
	long := fetchRequest("t", 0)
	long.MaxWaitMillis, long.SessionEpoch = 60_000, sessionInitial
	id := waiting.send(long)
	waitFor(t, "the fetch", func() bool { return len(h.sessionIDs()) == 1 })
	if err := a.DeleteUser(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	waiting.receive(id) // what was in flight is answered
	waiting.closed()
	ask[*kmsg.MetadataResponse](other, metadataRequest())
	waitFor(t, "a line that says why", func() bool { return strings.Contains(h.log.String(), "user alice was deleted") })
	again := h.dial()
	if resp := again.login("alice", alicesPassword); resp.ErrorCode != codeSaslAuthenticationFailed {
		t.Errorf("%+v", resp)
	}
}
