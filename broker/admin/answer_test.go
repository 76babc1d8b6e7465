package admin

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestAnswersAreWhatTheirTypesSay: records that are written in pieces are read as those
// that encoding/json writes, whatever is in them.
func TestAnswersAreWhatTheirTypesSay(t *testing.T) {
	hostile := []string{"", "k", "\x00\x1f\"\\<>&\u2028", "\xff", "\xe2\x82", strings.Repeat("\xe2\x82", answerPiece*2/3), strings.Repeat("\xf0\x9f\x98\x80", answerPiece/3),
		"x" + strings.Repeat("€", answerPiece/2), strings.Repeat("\x00", answerPiece+1), strings.Repeat("\x80", 2*answerPiece+5), strings.Repeat("a", answerPiece) + "\xff"}
	for _, s := range hostile {
		list := api.RecordList{Next: 7, End: 9, Records: []api.Record{
			{Partition: 3, Offset: 5, Timestamp: -1, Key: api.Bytes(s), Value: api.Bytes(s), Headers: []api.Header{{Key: s, Value: api.Bytes(s)}, {Key: s}},
				Origin: api.RecordOrigin{Region: 2, RegionName: "eu", Life: rhumb.Life{1}, Offset: 8}},
			{Headers: []api.Header{}, Value: api.Bytes{}},
		}}
		sameAnswer(t, list)
	}
	sameAnswer(t, api.RecordList{Records: []api.Record{}})
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 2))
		list := api.RecordList{Records: []api.Record{}}
		for _, r := range randomRecords(random) {
			out := api.Record{Offset: rhumb.Offset(random.Int64()), Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: []api.Header{}}
			for _, h := range r.Headers {
				out.Headers = append(out.Headers, api.Header{Key: h.Key, Value: h.Value})
			}
			list.Records = append(list.Records, out)
		}
		sameAnswer(t, list)
	}
}

func sameAnswer(t *testing.T, list api.RecordList) {
	t.Helper()
	var pieces bytes.Buffer
	if err := writeRecords(&pieces, &list); err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(pieces.Bytes(), &got); err != nil {
		t.Fatalf("%v: %.200s", err, pieces.String())
	}
	if err := json.Unmarshal(whole, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v: %.300s, want %.300s", err, pieces.String(), whole)
	}
}
