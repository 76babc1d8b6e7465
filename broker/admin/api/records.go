package api

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Bytes is a record's key or value. In JSON it is a string where it is UTF-8,
// an object {"base64": "…"} where it is not, and null where it is absent.
type Bytes []byte

type base64Bytes struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON writes the form that fits the content.
func (b Bytes) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		return json.Marshal(string(b))
	}
	return json.Marshal(base64Bytes{b})
}

// UnmarshalJSON reads any of the three forms.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	var s *string
	if err := json.Unmarshal(text, &s); err == nil {
		*b = nil
		if s != nil {
			*b = Bytes(*s)
		}
		return nil
	}
	var o base64Bytes
	if err := json.Unmarshal(text, &o); err != nil {
		return rhumb.Errorf(rhumb.KindInvalid, `key or value must be a string, null or {"base64": "…"}: %w`, err)
	}
	*b = o.Base64
	if *b == nil {
		*b = Bytes{}
	}
	return nil
}

// Header is one header of a record.
type Header struct {
	Key   string `json:"key"`
	Value Bytes  `json:"value"`
}

// ProduceRequest asks to append records as one batch.
type ProduceRequest struct {
	Partition *int32          `json:"partition,omitempty"` // absent: chosen by the hash of the first record's key
	Records   []ProduceRecord `json:"records"`
}

// ProduceRecord is a record to append.
type ProduceRecord struct {
	Key       Bytes    `json:"key,omitempty"`
	Value     Bytes    `json:"value"`
	Headers   []Header `json:"headers,omitempty"`
	Timestamp int64    `json:"timestamp,string,omitempty"` // ms since 1970, 0: now
}

// ProduceResponse says where the records are: offsets base to base+count-1.
type ProduceResponse struct {
	Topic      string       `json:"topic"`
	Partition  int32        `json:"partition"`
	BaseOffset rhumb.Offset `json:"base_offset,string"`
	Count      int32        `json:"count"`
}

// RecordList is a piece of a partition's log.
type RecordList struct {
	Records []Record     `json:"records"`
	Next    rhumb.Offset `json:"next,string"` // where to go on reading
	End     rhumb.Offset `json:"end,string"`  // end of what may be read now
}

// Record is a stored record and its origin.
type Record struct {
	Partition int32        `json:"partition"`
	Offset    rhumb.Offset `json:"offset,string"`
	Timestamp int64        `json:"timestamp,string"`
	Key       Bytes        `json:"key"`
	Value     Bytes        `json:"value"`
	Headers   []Header     `json:"headers"`
	Origin    RecordOrigin `json:"origin"`
}

// RecordOrigin is the identity of a record in the mesh.
type RecordOrigin struct {
	Region     rhumb.RegionNumber `json:"region"`
	RegionName rhumb.RegionName   `json:"region_name"`
	Life       rhumb.Life         `json:"life"`
	Offset     rhumb.Offset       `json:"offset,string"`
}
