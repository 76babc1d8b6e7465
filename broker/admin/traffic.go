package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// produce answers POST …/records.
func (s *Server) produce(r *http.Request) (any, error) {
	t, err := s.topicToWrite(r)
	if err != nil {
		return nil, err
	}
	var req api.ProduceRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if n := len(req.Records); n == 0 || n > maxProduceCount {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "%d records in one request: send 1 to %d", n, maxProduceCount)
	}
	if len(t.Partitions) == 0 {
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "topic %s is being created", t.Name.Short())
	}
	count := int32(len(t.Partitions))
	partition := pickPartition(req.Records[0].Key, count)
	if req.Partition != nil {
		partition = *req.Partition
	}
	if partition < 0 || partition >= count {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "topic %s has partitions 0 to %d, not %d", t.Name.Short(), count-1, partition)
	}
	batch := codec.BuildBatch(codec.NoSender, plainRecords(req.Records, time.Now().UnixMilli()))
	ctx, cancel := s.untilStop(r, bodyTimeout)
	defer cancel()
	if err := s.awaitReady(ctx, t, partition); err != nil {
		return nil, err
	}
	base, err := s.cfg.Data.Produce(ctx, t.Name, partition, batch)
	if err != nil {
		if isDone(err) && rhumb.KindOf(err) == rhumb.KindInternal {
			err = rhumb.Errorf(rhumb.KindTimeout, "produce to %s partition %d: %w", t.Name.Short(), partition, err)
		}
		return nil, err
	}
	return api.ProduceResponse{Topic: t.Name.String(), Partition: partition, BaseOffset: base, Count: int32(len(req.Records))}, nil
}

// topicToWrite finds the topic that the path names. As for Kafka clients, one that
// is not there is made if the region makes topics by itself.
func (s *Server) topicToWrite(r *http.Request) (Topic, error) {
	t, err := s.topicOf(r)
	if rhumb.KindOf(err) != rhumb.KindNotFound {
		return t, err
	}
	name := rhumb.Topic{Tenant: rhumb.Tenant(r.PathValue("tenant")), Namespace: rhumb.Namespace(r.PathValue("namespace")),
		Name: rhumb.TopicName(r.PathValue("topic"))}
	if !s.cfg.AutoCreate {
		return t, rhumb.Errorf(rhumb.KindNotFound, "topic %s is not in region %s%s, which makes no topics by itself: 'rhumb topic create %s' makes it",
			name.Short(), s.cfg.Identity.Name, s.likeTopic(name), name.Short())
	}
	ctx, cancel := s.untilStop(r, bodyTimeout)
	defer cancel()
	t, err = s.cfg.Topics.CreateTopic(ctx, name, 0, nil)
	if rhumb.KindOf(err) == rhumb.KindExists && err != nil {
		return s.findTopic(name) // somebody else was faster
	}
	return t, err
}

// awaitReady waits a while for a partition that is being made, as one is here that was
// made in another region a moment ago. What came meanwhile is not the caller's: t is
// looked up again.
func (s *Server) awaitReady(ctx context.Context, t Topic, partition int32) error {
	ctx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	tick := time.NewTicker(createLook)
	defer tick.Stop()
	for !t.Partitions[partition].Ready {
		select {
		case <-ctx.Done():
			return rhumb.Errorf(rhumb.KindUnavailable, "topic %s partition %d is being created", t.Name.Short(), partition)
		case <-tick.C:
		}
		now, err := s.findTopic(t.Name)
		if err != nil {
			return err
		}
		if int(partition) < len(now.Partitions) {
			t = now
		}
	}
	return nil
}

func plainRecords(records []api.ProduceRecord, now int64) []codec.PlainRecord {
	out := make([]codec.PlainRecord, 0, len(records))
	for _, r := range records {
		p := codec.PlainRecord{Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
		if p.Timestamp == 0 {
			p.Timestamp = now
		}
		for _, h := range r.Headers {
			p.Headers = append(p.Headers, codec.PlainHeader{Key: h.Key, Value: h.Value})
		}
		out = append(out, p)
	}
	return out
}

// pickPartition keeps records of one key together. It is not the hash of any
// Kafka client: who mixes both for one key names the partition.
func pickPartition(key []byte, count int32) int32 {
	if key == nil {
		return int32(time.Now().UnixNano() % int64(count))
	}
	return int32(xxhash.Sum64(key) % uint64(count))
}

// partitionToRead is partitionOf, which waits for one that is being made.
func (s *Server) partitionToRead(r *http.Request) (Topic, int32, Partition, error) {
	t, n, p, err := s.partitionOf(r)
	if err == nil || p.Ready || int(n) >= len(t.Partitions) || rhumb.KindOf(err) != rhumb.KindUnavailable {
		return t, n, p, err
	}
	ctx, cancel := s.untilStop(r, bodyTimeout)
	defer cancel()
	if err := s.awaitReady(ctx, t, n); err != nil {
		return t, n, p, err
	}
	return s.partitionOf(r)
}

// consume answers GET …/records?from=&max=&wait=.
func (s *Server) consume(r *http.Request) (any, error) {
	t, n, p, err := s.partitionToRead(r)
	if err != nil {
		return nil, err
	}
	q, err := parseConsume(r.URL.Query())
	if err != nil {
		return nil, err
	}
	st, there := s.cfg.Logs.State(p.Ref)
	if !there {
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "topic %s partition %d is not open here now", t.Name.Short(), n)
	}
	from := q.start(st)
	if from < st.LogStart || from > st.End {
		return nil, rhumb.Errorf(rhumb.KindOutOfRange, "offset %d is outside of %d to %d: use from=earliest or from=latest",
			from, st.LogStart, st.Flushed)
	}
	if from >= st.Flushed && q.wait > 0 {
		ctx, cancel := s.untilStop(r, q.wait)
		s.cfg.Data.Await(ctx, p.Ref, from)
		cancel()
		if st, there = s.cfg.Logs.State(p.Ref); !there {
			return nil, rhumb.Errorf(rhumb.KindNotFound, "topic %s was deleted meanwhile", t.Name.Short())
		}
	}
	c := collector{server: s, topic: t.Name, max: q.max, name: s.namer(), partition: n, from: from, limit: st.Flushed,
		list: api.RecordList{Records: []api.Record{}, Next: from, End: st.Flushed}}
	held, err := c.gather(r, p.Ref)
	if err != nil {
		return nil, err
	}
	return heldRecords{c.list, held}, nil
}

type consumeQuery struct {
	from rhumb.Offset // noOffset: one of the words
	word string
	max  int
	wait time.Duration
}

func parseConsume(v url.Values) (q consumeQuery, err error) {
	q.max, q.from, q.word = 100, rhumb.NoOffset, v.Get("from")
	switch q.word {
	case "":
		q.word = "earliest"
	case "earliest", "latest":
	default:
		if q.from, err = offsetParam(v, "from", 0); err != nil {
			return q, rhumb.Errorf(rhumb.KindInvalid, "from must be earliest, latest or an offset, not %q", q.word)
		}
	}
	if text := v.Get("max"); text != "" {
		if q.max, err = strconv.Atoi(text); err != nil || q.max < 1 || q.max > maxConsumeCount {
			return q, rhumb.Errorf(rhumb.KindInvalid, "max must be 1 to %d, not %q", maxConsumeCount, text)
		}
	}
	if text := v.Get("wait"); text != "" {
		if q.wait, err = time.ParseDuration(text); err != nil || q.wait < 0 || q.wait > maxConsumeWait {
			return q, rhumb.Errorf(rhumb.KindInvalid, "wait must be 0s to %s, not %q", maxConsumeWait, text)
		}
	}
	return q, nil
}

func (q consumeQuery) start(st State) rhumb.Offset {
	switch {
	case q.from != rhumb.NoOffset:
		return q.from
	case q.word == "latest":
		return st.Flushed
	}
	return st.LogStart
}
