package sim

import (
	"context"
	"sync"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// absent stands for a setting that a topic does not have.
const absent = "\x00"

// nameLife is what clients were told of a topic under one deletion count.
type nameLife struct {
	made       bool  // somebody was told that it is there
	partitions int32 // that it has at least
	// values are those that a setting may have: one after an answer, more where two
	// changed it at once, or somebody was not answered.
	values map[string]map[string]bool
	loose  bool         // deleted in a region alone: what only that one knew is gone
	meant  bool         // somebody asked for this one to be deleted in the mesh
	gone   map[int]bool // regions that deleted it alone and did not make it again
}

// namesModel is what clients were told of all topics.
type namesModel struct {
	mu     sync.Mutex
	wrong  error // what an answer said that must not be
	lives  map[rhumb.Topic]map[uint64]*nameLife
	counts map[string]uint64              // value -> deletion count of the topic that it was sent to
	acks   map[rhumb.Life]map[string]bool // values that were acknowledged
}

func newNamesModel() *namesModel {
	return &namesModel{lives: map[rhumb.Topic]map[uint64]*nameLife{}, counts: map[string]uint64{}, acks: map[rhumb.Life]map[string]bool{}}
}

// life gives what is known of a topic under a count. The caller holds mu.
func (m *namesModel) life(t rhumb.Topic, count uint64) *nameLife {
	if m.lives[t] == nil {
		m.lives[t] = map[uint64]*nameLife{}
	}
	if m.lives[t][count] == nil {
		m.lives[t][count] = &nameLife{values: map[string]map[string]bool{}, gone: map[int]bool{}}
	}
	return m.lives[t][count]
}

// may adds a value that a setting may have.
func (l *nameLife) may(key, value string) {
	if l.values[key] == nil {
		l.values[key] = map[string]bool{absent: true}
	}
	l.values[key][value] = true
}

func (m *namesModel) sent(value string, count uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[value] = count
}

func (m *namesModel) acked(life rhumb.Life, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.acks[life] == nil {
		m.acks[life] = map[string]bool{}
	}
	m.acks[life][value] = true
}

// blame notes an answer that must not be.
func (m *namesModel) blame(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrong == nil {
		m.wrong = err
	}
}

// told takes the answer to a deed. info is the topic as the region had it, or made
// it; before and after are the store's documents around the deed. What was not
// answered, or met others, may or may not have been done.
func (m *namesModel) told(a *act, info region.TopicInfo, before, after configstore.Topic, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sure := err == nil && a.alone && before.Deletions == after.Deletions
	switch a.what {
	case deedCreate:
		m.created(a, info, before, after, err)
	case deedGrow:
		if sure {
			l := m.life(a.topic, info.Deletions)
			l.partitions = max(l.partitions, a.partitions+int32(len(info.Partitions)))
		}
	case deedAlter:
		for count := before.Deletions; count <= after.Deletions; count++ {
			m.life(a.topic, count).may(a.key, a.value)
		}
		if sure {
			m.life(a.topic, info.Deletions).values[a.key] = map[string]bool{a.value: true}
		}
	case deedDelete:
		m.life(a.topic, info.Deletions).meant = true
	case deedDeleteHere:
		l := m.life(a.topic, info.Deletions)
		l.loose = true
		if sure {
			l.gone[a.at] = true
		}
	}
}

func (m *namesModel) created(a *act, info region.TopicInfo, before, after configstore.Topic, err error) {
	if rhumb.KindOf(err) != rhumb.KindExists || err == nil {
		for _, l := range m.lives[a.topic] {
			delete(l.gone, a.at)
		}
	}
	if err == nil {
		l := m.life(a.topic, info.Deletions)
		l.made, l.partitions = true, max(l.partitions, a.partitions)
	}
	// What it was made with counts if the mesh has not heard of any settings.
	for count := before.Deletions; count <= after.Deletions; count++ {
		if before.Configs != nil && count == before.Deletions {
			continue
		}
		for key, value := range a.configs {
			m.life(a.topic, count).may(key, value)
		}
	}
}

// snapshot is a store that nobody changes.
type snapshot struct {
	docs map[string]configstore.Document
}

// Get gives a document.
func (s snapshot) Get(_ context.Context, key string) (configstore.Document, error) {
	if d, ok := s.docs[key]; ok {
		return d, nil
	}
	return configstore.Document{}, configstore.NotFound(key)
}

// List gives nothing: it is not asked.
func (s snapshot) List(context.Context, string) ([]configstore.Document, error) { return nil, errApart }

// Put stores nothing.
func (s snapshot) Put(context.Context, configstore.Document) error { return errApart }

// Watch ends at once.
func (s snapshot) Watch(context.Context, string, func([]configstore.Document)) error { return errApart }

// Close does nothing.
func (s snapshot) Close() error { return nil }
