package shard

import (
	"context"
	"reflect"
	"testing"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestLogStartKeepsItsReasons: why records are gone is state: moves for one reason
// in a row are one, each with the chain where a gap may end.
func TestLogStartKeepsItsReasons(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disk := newMemDisk(1)
		n := startSolo(t, disk, nil)
		id := n.partition(1)
		chains := map[rhumb.Offset]uint64{}
		o := newOrigin(1)
		for range 6 { // own 0-1 5-6 10-11 15-16 20-21 25-26, foreign between them
			r := n.append(id, 2, "own", nil)
			st, _ := n.State(id)
			chains[r.Base+1] = st.OwnChain
			<-n.link(id, o.next(3, "foreign"))
		}
		for _, m := range []struct {
			to     rhumb.Offset
			reason rhumb.Reason
		}{{2, rhumb.ReasonRetention}, {8, rhumb.ReasonRetention}, {12, rhumb.ReasonDeleted}, {16, rhumb.ReasonRetention}} {
			if _, err := n.MoveLogStart(context.Background(), id, m.to, m.reason); err != nil {
				t.Fatal(err)
			}
		}
		want := []StartMove{
			{dedup.ChainPoint{Offset: 7, Chain: chains[6]}, rhumb.ReasonRetention},
			{dedup.ChainPoint{Offset: 11, Chain: chains[11]}, rhumb.ReasonDeleted},
		} // the last move dropped nothing: 15-16 is carried whole
		if st, _ := n.State(id); !reflect.DeepEqual(st.Starts, want) {
			t.Fatalf("%+v, want %+v", st.Starts, want)
		}
		n.checkReload()
		n.stop()
		n = startSolo(t, disk, nil)
		if st, _ := n.State(id); !reflect.DeepEqual(st.Starts, want) {
			t.Fatalf("after a restart: %+v", st.Starts)
		}
		if _, err := n.MoveLogStart(context.Background(), id, 30, rhumb.ReasonDeleted); err != nil {
			t.Fatal(err)
		}
		if st, _ := n.State(id); len(st.Starts) != 2 || st.Starts[1].Offset != 29 || st.Starts[1].Chain != chains[26] {
			t.Fatalf("an emptied log: %+v", st.Starts)
		}
	})
}

// TestLogStartInsideOfABatchIsNoReason: whoever moves the log start into the
// middle of a batch has dropped nothing that another move dropped before.
func TestLogStartInsideOfABatchIsNoReason(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second rhumb.Reason
	}{
		{"deletion after retention", rhumb.ReasonRetention, rhumb.ReasonDeleted},
		{"retention after deletion", rhumb.ReasonDeleted, rhumb.ReasonRetention},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := startSolo(t, newMemDisk(1), nil)
				id := n.partition(1)
				n.append(id, 10, "own", nil) // 0-9
				st, _ := n.State(id)
				want := []StartMove{{dedup.ChainPoint{Offset: 9, Chain: st.OwnChain}, c.first}}
				n.append(id, 10, "own", nil) // 10-19
				st, _ = n.State(id)
				end := st.OwnChain
				move := func(to rhumb.Offset, reason rhumb.Reason) {
					t.Helper()
					if _, err := n.MoveLogStart(context.Background(), id, to, reason); err != nil {
						t.Fatal(err)
					}
					if st, _ := n.State(id); st.LogStart != to || !reflect.DeepEqual(st.Starts, want) {
						t.Fatalf("log start %d, %+v, want %d, %+v", st.LogStart, st.Starts, to, want)
					}
				}
				move(10, c.first)
				move(15, c.second)
				n.checkReload()
				want = append(want, StartMove{dedup.ChainPoint{Offset: 19, Chain: end}, c.second})
				move(20, c.second)
			})
		})
	}
}
