package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// checkNames holds all regions against the store and the model: each topic is the
// same everywhere or nowhere, nothing of what was deleted is anywhere, and nothing
// is lost of what lives.
func (n *namesRun) checkNames() error {
	n.model.mu.Lock()
	defer n.model.mu.Unlock()
	if n.model.wrong != nil {
		return n.model.wrong
	}
	for i := range n.plan.topics {
		name := topicName(i)
		if err := n.checkName(name); err != nil {
			return fmt.Errorf("topic %s: %w", name.Name, err)
		}
	}
	return nil
}

func (n *namesRun) checkName(name rhumb.Topic) error {
	doc := n.document(name)
	for count := range doc.Deletions {
		if !n.model.life(name, count).meant {
			return fmt.Errorf("the mesh deleted it under count %d, which nobody asked for", count)
		}
	}
	life := n.model.life(name, doc.Deletions)
	var have []int
	for i, h := range n.hosts {
		t, there := h.region().Topic(name)
		switch {
		case there && t.Deletions != doc.Deletions:
			return fmt.Errorf("r%d has it under deletion count %d, the mesh is at %d", i, t.Deletions, doc.Deletions)
		case there && life.gone[i]:
			return fmt.Errorf("r%d deleted it alone, and has it again", i)
		case there && !t.Ready():
			return fmt.Errorf("r%d is making it", i)
		case there:
			have = append(have, i)
		}
	}
	if len(have) == 0 {
		if life.made && !life.loose {
			return fmt.Errorf("it was made under count %d and is nowhere", doc.Deletions)
		}
		return nil
	}
	first, _ := n.hosts[have[0]].region().Topic(name)
	for i, h := range n.hosts {
		t, there := h.region().Topic(name)
		switch {
		case !there && !h.region().DeletedHere(name, doc.Deletions):
			return fmt.Errorf("r%d does not have it, r%d does", i, have[0])
		case !there:
		case len(t.Partitions) != len(first.Partitions):
			return fmt.Errorf("r%d has %d partitions, r%d has %d", i, len(t.Partitions), have[0], len(first.Partitions))
		case !maps.Equal(t.Configs, first.Configs):
			return fmt.Errorf("r%d has settings %v, r%d has %v", i, t.Configs, have[0], first.Configs)
		case doc.Configs != nil && !maps.Equal(t.Configs, doc.Configs):
			return fmt.Errorf("r%d has settings %v, the mesh has %v", i, t.Configs, doc.Configs)
		}
	}
	if err := life.check(first); err != nil {
		return err
	}
	return n.checkRecords(name, doc.Deletions, have)
}

// check holds a topic against what clients were told of it.
func (l *nameLife) check(t region.TopicInfo) error {
	if l.loose {
		return nil
	}
	if len(t.Partitions) < int(l.partitions) {
		return fmt.Errorf("it has %d partitions, somebody was told of %d", len(t.Partitions), l.partitions)
	}
	for key, may := range l.values {
		value, set := t.Configs[key]
		if !set {
			value = absent
		}
		if !may[value] {
			return fmt.Errorf("setting %s is %q, it may be one of %q", key, value, slices.Sorted(maps.Keys(may)))
		}
	}
	return nil
}

// checkRecords: no region has a record of a topic that was deleted, or one twice;
// and every record that was acknowledged in a log that is still there is in all
// regions that have the topic.
func (n *namesRun) checkRecords(name rhumb.Topic, count uint64, have []int) error {
	held := map[int]map[string]int{}
	var owed []string
	for _, i := range have {
		held[i] = map[string]int{}
		t, _ := n.hosts[i].region().Topic(name)
		for p := range t.Partitions {
			c, err := n.readPartition(i, name, p)
			if err != nil {
				return err
			}
			for _, r := range c.records {
				held[i][r.value]++
				switch born := n.model.counts[r.value]; {
				case born != count:
					return fmt.Errorf("r%d has %q of deletion count %d, the topic is of %d", i, r.value, born, count)
				case held[i][r.value] > 1:
					return fmt.Errorf("I3: r%d has %q twice", i, r.value)
				}
			}
			for value := range n.model.acks[c.state.Life] {
				owed = append(owed, value)
			}
		}
	}
	for _, value := range owed {
		for _, i := range have {
			if held[i][value] == 0 {
				return fmt.Errorf("I1, I3: r%d lacks %q, which was acknowledged", i, value)
			}
		}
	}
	return nil
}
