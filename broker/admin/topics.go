package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// topicList answers GET /topics.
func (s *Server) topicList(r *http.Request) (any, error) {
	list := api.TopicList{Topics: []api.Topic{}}
	for _, t := range s.cfg.Topics.Topics() {
		if scopeOf(r).covers(t.Name.Tenant) {
			list.Topics = append(list.Topics, topicJSON(t))
		}
	}
	slices.SortFunc(list.Topics, func(a, b api.Topic) int { return cmp.Compare(a.Topic, b.Topic) })
	return list, nil
}

func topicJSON(t Topic) api.Topic {
	configs := t.Configs
	if configs == nil {
		configs = map[string]string{}
	}
	return api.Topic{Topic: t.Name.String(), ID: t.ID, Partitions: int32(len(t.Partitions)), Deletions: t.Deletions,
		CreatedAt: t.CreatedAt, Configs: configs}
}

// topicCreate answers POST /topics.
func (s *Server) topicCreate(r *http.Request) (any, error) {
	var spec api.TopicSpec
	if err := decode(r, &spec); err != nil {
		return nil, err
	}
	name, err := rhumb.ParseTopic(spec.Topic)
	if err != nil {
		return nil, err
	}
	changes(r, "topic %s", name.Short())
	if err := scopeOf(r).check(name.Tenant); err != nil {
		return nil, err
	}
	if spec.Partitions < 0 {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "partitions must be at least 1 (0 means the region's default), not %d", spec.Partitions)
	}
	for key := range spec.Configs {
		if topicconf.Topic(key) == nil {
			return nil, noSetting(key)
		}
	}
	t, err := s.cfg.Topics.CreateTopic(r.Context(), name, spec.Partitions, spec.Configs)
	if err != nil {
		return nil, err
	}
	return topicJSON(t), nil
}

// topicDelete answers DELETE /topics/{tenant}/{namespace}/{topic}?scope=SCOPE&force=BOOL with the
// topic as it was.
func (s *Server) topicDelete(r *http.Request) (any, error) {
	t, err := s.topicOf(r)
	if err != nil {
		return nil, err
	}
	changes(r, "topic %s", t.Name.Short())
	scope := r.URL.Query().Get("scope")
	if scope != "" && scope != "mesh" && scope != "region" {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "scope must be mesh or region, not %q", scope)
	}
	force, err := forced(r)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Topics.DeleteTopic(r.Context(), t.Name, scope, force); err != nil {
		return nil, err
	}
	return topicJSON(t), nil
}

// forced tells if a request says force=true.
func forced(r *http.Request) (bool, error) {
	text := r.URL.Query().Get("force")
	if text == "" {
		return false, nil
	}
	force, err := strconv.ParseBool(text)
	if err != nil {
		return false, rhumb.Errorf(rhumb.KindInvalid, "force=%s: want true or false", text)
	}
	return force, nil
}

// topicDescribe answers GET /topics/{tenant}/{namespace}/{topic}.
func (s *Server) topicDescribe(r *http.Request) (any, error) {
	t, err := s.topicOf(r)
	if err != nil {
		return nil, err
	}
	detail := api.TopicDetail{Topic: topicJSON(t), Logs: []api.Partition{}}
	name := s.namer()
	for i, p := range t.Partitions {
		log := s.describe(p, int32(i))
		for j := range log.Origins {
			log.Origins[j].RegionName = name(log.Origins[j].Region)
		}
		detail.Logs = append(detail.Logs, log)
	}
	return detail, nil
}

// describe gives a partition's figures. The own life comes first: all offsets of
// the log up to its end are accounted for, whoever's records they hold.
func (s *Server) describe(p Partition, index int32) api.Partition {
	st, there := s.cfg.Logs.State(p.Ref)
	if !p.Ready || !there {
		return api.Partition{Partition: index, Life: p.Life, Origins: []api.Origin{}}
	}
	out := api.Partition{Partition: index, Ready: true, Shard: p.Ref.Shard, ID: p.Ref.ID, Life: st.Life,
		LogStart: st.LogStart, End: st.End, FlushedEnd: st.Flushed, LeaderEpoch: st.LeaderEpoch, Bytes: st.Bytes}
	own := api.Origin{Region: s.cfg.Identity.Number, Life: st.Life, Own: true,
		Watermark: st.End - 1, Floor: st.LogStart - 1, LastRecord: st.OwnLast, Chain: hex64(st.OwnChain)}
	var past []api.Origin
	for _, p := range st.Past {
		past = append(past, api.Origin{Region: own.Region, Life: p.Life, Closed: true, Watermark: p.Last,
			Floor: min(st.LogStart-1, p.Last), LastRecord: p.Last, Chain: hex64(p.Chain)})
		own.Floor = max(own.Floor, p.Last)
	}
	out.Origins = append(append(out.Origins, own), past...)
	for _, o := range st.Origins {
		out.Origins = append(out.Origins, api.Origin{Region: o.Region, Life: o.Life, Watermark: o.Watermark, Floor: o.Floor,
			LastRecord: o.Watermark, Chain: hex64(o.Chain)})
	}
	return out
}

func hex64(v uint64) string { return fmt.Sprintf("%016x", v) }

// topicOf finds the topic that the path names.
func (s *Server) topicOf(r *http.Request) (Topic, error) {
	name := rhumb.Topic{Tenant: rhumb.Tenant(r.PathValue("tenant")), Namespace: rhumb.Namespace(r.PathValue("namespace")),
		Name: rhumb.TopicName(r.PathValue("topic"))}
	return s.findTopic(name)
}

func (s *Server) findTopic(name rhumb.Topic) (Topic, error) {
	if err := name.Validate(); err != nil {
		return Topic{}, err
	}
	t, found := s.cfg.Topics.Topic(name)
	if !found {
		return Topic{}, rhumb.Errorf(rhumb.KindNotFound, "topic %s is not in region %s%s", name.Short(), s.cfg.Identity.Name, s.likeTopic(name))
	}
	return t, nil
}

// likeTopic names the topics that may have been meant, of the same tenant: of others'
// the caller may not know.
func (s *Server) likeTopic(name rhumb.Topic) string {
	mine := slices.DeleteFunc(s.cfg.Topics.Topics(), func(t Topic) bool { return t.Name.Tenant != name.Tenant })
	return nearest.Hint(name.Short(), mine, func(t *Topic) string { return t.Name.Short() })
}

// noPartition is the refusal of a partition that a topic does not have.
func noPartition(t Topic, typed string) error {
	return rhumb.Errorf(rhumb.KindNotFound, "topic %s has partitions 0 to %d, not %q: see them with 'rhumb topic describe %[1]s'", t.Name.Short(), len(t.Partitions)-1, typed)
}

// partitionOf finds the partition that the path names, ready to be read.
func (s *Server) partitionOf(r *http.Request) (Topic, int32, Partition, error) {
	t, err := s.topicOf(r)
	if err != nil {
		return t, 0, Partition{}, err
	}
	n, err := strconv.ParseInt(r.PathValue("partition"), 10, 32)
	if err != nil || n < 0 || n >= int64(len(t.Partitions)) {
		return t, 0, Partition{}, noPartition(t, r.PathValue("partition"))
	}
	p := t.Partitions[n]
	if !p.Ready {
		return t, int32(n), p, rhumb.Errorf(rhumb.KindUnavailable, "topic %s partition %d is being created", t.Name.Short(), n)
	}
	return t, int32(n), p, nil
}

// gapList answers GET /gaps?topic=NAME; without a topic it takes all of them.
func (s *Server) gapList(r *http.Request) (any, error) {
	topics := s.cfg.Topics.Topics()
	if want := r.URL.Query().Get("topic"); want != "" {
		name, err := rhumb.ParseTopic(want)
		if err != nil {
			return nil, err
		}
		if err := scopeOf(r).check(name.Tenant); err != nil {
			return nil, err
		}
		t, err := s.findTopic(name)
		if err != nil {
			return nil, err
		}
		topics = []Topic{t}
	}
	topics = slices.DeleteFunc(topics, func(t Topic) bool { return !scopeOf(r).covers(t.Name.Tenant) })
	slices.SortFunc(topics, func(a, b Topic) int { return cmp.Compare(a.Name.String(), b.Name.String()) })
	list, name := api.GapList{Gaps: []api.Gap{}}, s.namer()
	for _, t := range topics {
		for i, p := range t.Partitions {
			if !p.Ready {
				continue
			}
			for _, g := range s.cfg.Logs.Gaps(p.Ref) {
				list.Gaps = append(list.Gaps, api.Gap{Topic: t.Name.String(), Partition: int32(i), Region: g.Region,
					RegionName: name(g.Region), Life: g.Life, From: g.From, To: g.To, Reason: g.Reason.String(), At: g.At, By: g.By, Number: g.Number})
			}
		}
	}
	return list, nil
}
