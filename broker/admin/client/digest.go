package client

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// maxLine bounds a line of a digest stream.
const maxLine = 64 << 10

// DigestStream reads a digest line by line. Close it.
type DigestStream struct {
	body  io.Closer
	lines *bufio.Scanner
	where string
	end   *api.DigestEnd
}

// Digest starts a digest stream.
func (c *Client) Digest(ctx context.Context, q api.DigestQuery) (*DigestStream, error) {
	query := url.Values{"region": {strconv.Itoa(int(q.Region))}, "life": {q.Life.String()},
		"from": {strconv.FormatInt(int64(q.From), 10)}, "to": {strconv.FormatInt(int64(q.To), 10)}}
	if !q.Log.IsZero() {
		query.Set("log", q.Log.String())
	}
	if q.Records {
		query.Set("records", "true")
	}
	if q.Seek {
		query.Set("seek", "true")
	}
	resp, err := c.send(ctx, "GET", partitionPath(q.Topic, q.Partition)+"/digest", query, nil)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	return &DigestStream{body: resp.Body, lines: lines, where: c.base.String()}, nil
}

// Next gives the next line of a batch or a record. io.EOF comes only after the
// server said that it is complete; a stream that was cut off is an error of kind
// unavailable.
func (d *DigestStream) Next() (api.DigestLine, error) {
	if d.end != nil {
		return api.DigestLine{}, io.EOF
	}
	if !d.lines.Scan() {
		return api.DigestLine{}, rhumb.Errorf(rhumb.KindUnavailable, "digest of %s was cut off: %w; try again",
			d.where, cause(d.lines.Err()))
	}
	var line api.DigestLine
	if err := json.Unmarshal(d.lines.Bytes(), &line); err != nil {
		return line, rhumb.Errorf(rhumb.KindUnavailable, "digest of %s: %w", d.where, err)
	}
	switch {
	case line.Error != nil:
		return line, asError(*line.Error)
	case line.End != nil:
		d.end = line.End
		return api.DigestLine{}, io.EOF
	case line.Batch == nil && line.Record == nil:
		return line, rhumb.Errorf(rhumb.KindUnsupported, "digest of %s has a line that this version does not know", d.where)
	}
	return line, nil
}

func cause(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close ends the stream.
func (d *DigestStream) Close() error { return d.body.Close() }
