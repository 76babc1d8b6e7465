package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// DescribeLogDirs (API 35): how much partitions take on this node's disk.
//
// Versions 1 to 4:
//   - 2: flexible
//   - 3: top-level error
//   - 4: size and free space of the disk
//
// All that a node stores is in one directory. A partition's size is that of its
// batches in the log.
func init() {
	register(api{key: 35, min: 1, max: 4, handle: decodes(describeLogDirs)})
}

func describeLogDirs(_ context.Context, r *request, req *kmsg.DescribeLogDirsRequest) (kmsg.Response, error) {
	s := r.conn.server
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	disk, err := s.broker.Disk()
	if err != nil {
		dir.ErrorCode = codeStorageError
	} else {
		dir.TotalBytes, dir.UsableBytes = int64(disk.Total), int64(disk.Free)
	}
	dir.Dir = disk.Dir
	if req.Topics == nil {
		for _, info := range r.caller.topics() {
			dir.Topics = append(dir.Topics, s.sizes(r.caller.nameOf(info.Topic), &info, nil))
		}
	}
	names := counted(req.Topics, func(t *kmsg.DescribeLogDirsRequestTopic) string { return t.Topic })
	for _, ask := range req.Topics {
		if names.next(ask.Topic) == answered {
			continue
		}
		if info, err := r.caller.findTopic(false, ask.Topic, [16]byte{}); err == nil {
			dir.Topics = append(dir.Topics, s.sizes(ask.Topic, info, ask.Partitions))
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp, nil
}

// sizes gives the sizes of the partitions that are asked for, of all if none is
// named, each once. Those that do not exist are left out, as Kafka does.
func (s *Server) sizes(name string, info *broker.TopicInfo, asked []int32) kmsg.DescribeLogDirsResponseDirTopic {
	t := kmsg.NewDescribeLogDirsResponseDirTopic()
	t.Topic = name
	if len(asked) == 0 {
		for i := range info.Partitions {
			asked = append(asked, int32(i))
		}
	}
	slices.Sort(asked)
	for _, index := range slices.Compact(asked) {
		state, err := s.broker.State(info, index)
		if err != nil {
			continue
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = index, state.Bytes
		t.Partitions = append(t.Partitions, p)
	}
	return t
}
