package region

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// DropRow is for how long records that other regions lack are still told of after the
// last of them was dropped, over restarts. Drops that lie closer together count as one row.
const DropRow = 24 * time.Hour

// dropScope and dropKey are where the last row of drops is kept among the region's settings.
const (
	dropScope = "backlog"
	dropKey   = "dropped"
)

// storedDrop is a BacklogDrop as it is kept. Times are milliseconds since 1970.
type storedDrop struct {
	Topic     string             `json:"topic"`
	Partition int32              `json:"partition"`
	From      rhumb.Offset       `json:"from"`
	To        rhumb.Offset       `json:"to"`
	Missing   []rhumb.RegionName `json:"missing"`
	Reason    string             `json:"reason"`
	At        int64              `json:"at"`
	Since     int64              `json:"since"`
	Records   uint64             `json:"records"`
}

// readDrop reads what is kept; what is not as this version writes it counts as nothing.
func readDrop(text string) *BacklogDrop {
	var s storedDrop
	if text == "" || json.Unmarshal([]byte(text), &s) != nil {
		return nil
	}
	topic, err := rhumb.ParseTopic(s.Topic)
	if err != nil {
		return nil
	}
	return &BacklogDrop{Topic: topic, Partition: s.Partition, From: s.From, To: s.To, Missing: s.Missing, Reason: s.Reason,
		At: time.UnixMilli(s.At), Since: time.UnixMilli(s.Since), Records: s.Records}
}

func (d *BacklogDrop) text() (string, error) {
	text, err := json.Marshal(storedDrop{Topic: d.Topic.String(), Partition: d.Partition, From: d.From, To: d.To, Missing: d.Missing, Reason: d.Reason,
		At: d.At.UnixMilli(), Since: d.Since.UnixMilli(), Records: d.Records})
	return string(text), err
}

// row is the last row of drops, nil if there was none.
func (r *Region) row() *BacklogDrop {
	r.backlog.mu.Lock()
	last := r.backlog.status.Last
	r.backlog.mu.Unlock()
	if last == nil {
		last = readDrop(r.Settings(dropScope)[dropKey])
	}
	return last
}

// dropped notes records that went, as part of the row of drops that goes on.
func (r *Region) dropped(d BacklogDrop) {
	n := uint64(d.To - d.From + 1)
	d.Since, d.Records = d.At, n
	if last := r.row(); last != nil && d.At.Sub(last.At) < DropRow {
		d.Since, d.Records = last.Since, last.Records+n
	}
	b := &r.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Dropped += n
	b.status.Last = &d
}

// keepDrops has what was dropped told after a restart, too: health must not become
// clean by one. It is no reason to end anything: the log told of each drop.
func (r *Region) keepDrops(ctx context.Context) {
	r.backlog.mu.Lock()
	last := r.backlog.status.Last
	r.backlog.mu.Unlock()
	if last == nil {
		return
	}
	text, err := last.text()
	if err == nil && r.Settings(dropScope)[dropKey] != text {
		err = r.AlterSettings(ctx, dropScope, func(before map[string]string) (map[string]string, error) {
			after := maps.Clone(before)
			if after == nil {
				after = map[string]string{}
			}
			after[dropKey] = text
			return after, nil
		})
	}
	if err != nil {
		r.log.Warn("what was dropped is not told after a restart", "err", err)
	}
}
