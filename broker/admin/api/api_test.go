package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestBytesInJSON(t *testing.T) {
	for _, c := range []struct {
		b    Bytes
		json string
	}{{nil, `null`}, {Bytes{}, `""`}, {Bytes("a\"b"), `"a\"b"`}, {Bytes{0xff, 0}, `{"base64":"/wA="}`}} {
		text, err := json.Marshal(c.b)
		if err != nil || string(text) != c.json {
			t.Errorf("%q: %s, %v", []byte(c.b), text, err)
		}
		back := Bytes("before")
		if err := json.Unmarshal([]byte(c.json), &back); err != nil || !bytes.Equal(back, c.b) || (back == nil) != (c.b == nil) {
			t.Errorf("%s: %q, %v", c.json, []byte(back), err)
		}
	}
	var b Bytes
	for _, bad := range []string{`7`, `{"base64": 7}`, `["x"]`, `{"base64":"***"}`} {
		if err := json.Unmarshal([]byte(bad), &b); err == nil {
			t.Errorf("%s was taken as %q", bad, []byte(b))
		}
	}
}

// TestLargeNumbersAreStrings: a reader whose numbers are floats loses nothing.
func TestLargeNumbersAreStrings(t *testing.T) {
	text, err := json.Marshal([]any{Partition{End: 1<<62 + 1}, Origin{Watermark: 1<<62 + 1}, Topic{Deletions: 1<<63 + 1},
		Link{Since: 1<<62 + 1}, DigestBatch{First: 1<<62 + 1}, RecordList{Next: 1<<62 + 1}})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"4611686018427387905"`) + strings.Count(string(text), `"9223372036854775809"`); n != 6 {
		t.Errorf("%d of 6 numbers are strings: %s", n, text)
	}
}
