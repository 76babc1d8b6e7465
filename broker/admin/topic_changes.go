package admin

import (
	"maps"
	"net/http"
	"slices"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// topicPartitions answers POST /topics/{tenant}/{namespace}/{topic}/partitions with
// the topic as it is then. Fewer partitions than there are is refused: they hold records.
func (s *Server) topicPartitions(r *http.Request) (any, error) {
	t, err := s.topicOf(r)
	if err != nil {
		return nil, err
	}
	changes(r, "topic %s", t.Name.Short())
	var change api.PartitionsChange
	if err := decode(r, &change); err != nil {
		return nil, err
	}
	if have := len(t.Partitions); int(change.Partitions) < have {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "topic %s has %d partitions, and can only get more of them, not %d", t.Name.Short(), have, change.Partitions)
	}
	if err := s.cfg.Topics.GrowTopic(r.Context(), t.Name, change.Partitions); err != nil {
		return nil, err
	}
	return s.topicNow(t.Name)
}

func (s *Server) topicNow(name rhumb.Topic) (any, error) {
	t, err := s.findTopic(name)
	if err != nil {
		return nil, err
	}
	return topicJSON(t), nil
}

// topicSettings answers GET /topics/{tenant}/{namespace}/{topic}/configs.
func (s *Server) topicSettings(r *http.Request) (any, error) {
	t, err := s.topicOf(r)
	if err != nil {
		return nil, err
	}
	return s.settingsOf(t.Name)
}

// topicAlter answers POST /topics/{tenant}/{namespace}/{topic}/configs with what
// holds then.
func (s *Server) topicAlter(r *http.Request) (any, error) {
	t, err := s.topicOf(r)
	if err != nil {
		return nil, err
	}
	changes(r, "topic %s", t.Name.Short())
	var change api.SettingsChange
	if err := decode(r, &change); err != nil {
		return nil, err
	}
	if len(change.Set)+len(change.Unset) == 0 {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "nothing to set and nothing to unset")
	}
	for _, name := range change.Unset {
		if _, twice := change.Set[name]; twice {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "%s is to be set and unset", name)
		}
	}
	for _, name := range append(slices.Collect(maps.Keys(change.Set)), change.Unset...) {
		if _, has := t.Configs[name]; !has && topicconf.Topic(name) == nil {
			return nil, noSetting(name)
		}
	}
	if err := s.cfg.Topics.AlterSettings(r.Context(), t.Name, change.Set, change.Unset); err != nil {
		return nil, err
	}
	return s.settingsOf(t.Name)
}

// noSetting is the refusal of a name that no setting of topics has. To take one away that
// never was is as much a slip as to give it a value: whoever misspelled it believes that
// another value holds now.
func noSetting(name string) error {
	hint := nearest.Hint(name, topicconf.TopicDefs(), func(d *topicconf.Def) string { return d.Name })
	return rhumb.Errorf(rhumb.KindInvalid, "topics have no setting %q%s: see which there are with 'rhumb topic configs TOPIC --all'", name, hint)
}

func (s *Server) settingsOf(name rhumb.Topic) (any, error) {
	all, err := s.cfg.Topics.Settings(name)
	if err != nil {
		return nil, err
	}
	out := api.TopicSettings{Topic: name.String(), Mesh: all.Mesh, Version: all.Version, Settings: []api.Setting{}}
	for _, e := range all.Settings {
		out.Settings = append(out.Settings, api.Setting(e))
	}
	return out, nil
}
