package groups

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkThousandGroupsBeat is a second in the life of 1,000 groups of three
// members that beat every three seconds, as clients do: 1,000 heartbeats.
func BenchmarkThousandGroupsBeat(b *testing.B) {
	c, err := New(Config{Store: newDisk(), InitialDelay: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	type seatOf struct {
		key Key
		ref MemberRef
	}
	var members []seatOf
	for n := range 1000 {
		k := Key{Tenant: "public", Namespace: "default", Group: fmt.Sprint("group-", n)}
		var ids [3]string
		var last JoinAnswer
		for range 2 { // the second time all three are there
			for i := range ids {
				c.Join(k, JoinRequest{Member: ids[i], ClientID: "c", Session: time.Minute, Limit: time.Minute, Kind: "consumer",
					Protocols: []Protocol{{"range", nil}}}, func(a JoinAnswer) { ids[i], last = a.Member, a })
				if ids[i] == "" { // it waits: its id is in the description
					d, err := c.Describe(k)
					if err != nil {
						b.Fatal(err)
					}
					ids[i] = d.Members[i].ID
				}
			}
		}
		for _, id := range ids {
			members = append(members, seatOf{k, MemberRef{ID: id, Generation: last.Generation}})
		}
	}
	i := 0
	for b.Loop() {
		for range 1000 {
			m := &members[i%len(members)]
			i++
			if err := c.Heartbeat(m.key, m.ref); err != nil {
				b.Fatal(err)
			}
		}
	}
}
