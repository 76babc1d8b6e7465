package admin

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/rhumbmq/rhumb/broker/admin/api"
)

// answerPiece is how much of a key or a value is made JSON of at once.
const answerPiece = 32 << 10

// recordWriter writes records as JSON, as encoding/json would, but in pieces: that makes a
// text of the whole answer first, of up to six bytes for each byte, and copies it twice.
type recordWriter struct {
	out   *bufio.Writer
	piece bytes.Buffer // a piece of a text as JSON
	json  *json.Encoder
}

// writeRecords writes an answer with records.
func writeRecords(w io.Writer, list *api.RecordList) error {
	e := &recordWriter{out: bufio.NewWriterSize(w, answerPiece)}
	e.json = json.NewEncoder(&e.piece)
	e.json.SetEscapeHTML(false)
	e.out.WriteString(`{"records":[`)
	for i := range list.Records {
		if i > 0 {
			e.out.WriteByte(',')
		}
		if err := e.record(&list.Records[i]); err != nil {
			return err
		}
	}
	e.out.WriteString(`],"next":`)
	e.number(int64(list.Next))
	e.out.WriteString(`,"end":`)
	e.number(int64(list.End))
	e.out.WriteString("}\n")
	return e.out.Flush()
}

func (e *recordWriter) record(r *api.Record) error {
	origin, err := json.Marshal(r.Origin)
	if err != nil {
		return err
	}
	e.out.WriteString(`{"partition":` + strconv.Itoa(int(r.Partition)) + `,"offset":`)
	e.number(int64(r.Offset))
	e.out.WriteString(`,"timestamp":`)
	e.number(r.Timestamp)
	e.out.WriteString(`,"key":`)
	e.bytes(r.Key)
	e.out.WriteString(`,"value":`)
	e.bytes(r.Value)
	e.out.WriteString(`,"headers":[`)
	for i, h := range r.Headers {
		if i > 0 {
			e.out.WriteByte(',')
		}
		e.out.WriteString(`{"key":`)
		writeString(e, h.Key)
		e.out.WriteString(`,"value":`)
		e.bytes(h.Value)
		e.out.WriteByte('}')
	}
	e.out.WriteString(`],"origin":`)
	e.out.Write(origin)
	return e.out.WriteByte('}') // which gives the error of any before
}

func (e *recordWriter) number(n int64) {
	e.out.WriteByte('"')
	e.out.WriteString(strconv.FormatInt(n, 10))
	e.out.WriteByte('"')
}

// bytes writes what api.Bytes says of itself.
func (e *recordWriter) bytes(b api.Bytes) {
	switch {
	case b == nil:
		e.out.WriteString("null")
	case utf8.Valid(b):
		writeString(e, b)
	default:
		e.out.WriteString(`{"base64":"`)
		w := base64.NewEncoder(base64.StdEncoding, e.out)
		_, _ = w.Write(b) // the error comes again at the end
		_ = w.Close()
		e.out.WriteString(`"}`)
	}
}

// writeString writes a string, cut between characters.
func writeString[T ~string | ~[]byte](e *recordWriter, s T) {
	e.out.WriteByte('"')
	for len(s) > 0 {
		n := min(len(s), answerPiece)
		for back := 0; n < len(s) && back < utf8.UTFMax-1 && !utf8.RuneStart(s[n]); back++ {
			n--
		}
		e.piece.Reset()
		_ = e.json.Encode(string(s[:n])) // a string has no error
		quoted := e.piece.Bytes()
		e.out.Write(quoted[1 : len(quoted)-2]) // without the quotes, and the end of the line
		s = s[n:]
	}
	e.out.WriteByte('"')
}
