package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Pause is an edge, or all edges of a namespace or a link, that an operator stopped.
type Pause struct {
	Space rhumb.Space // zero: every namespace
	At    time.Time
	By    string
}

// Refusal says from where on a destination takes nothing of a partition.
type Refusal struct {
	At     rhumb.Offset
	Code   string
	Reason string
	Since  time.Time
}

// SkipRequest asks for records to be left out on the way to a region: those that
// Origin published, empty for this region.
type SkipRequest struct {
	Peer      rhumb.RegionName
	Partition rhumb.Partition
	Origin    rhumb.RegionName
	To        rhumb.Offset // the offset to go on with
	By        string
	DryRun    bool
}

// Skip is what a skip leaves out, or would: both inclusive. From > To means nothing.
type Skip struct {
	Life     rhumb.Life
	From, To rhumb.Offset
	Done     bool
}

// LinkCheck is one thing that a link needs, looked at.
type LinkCheck struct {
	Name, Target string
	OK           bool
	Detail, Next string
}

// Retried is what was tried again: the flows of so many partitions, one for each life whose
// records they carry. Of Waiting partitions at least one flow waited for another try.
type Retried struct {
	Flows, Partitions, Waiting int
	Dialled                    bool // there was no connection: it is dialled anew
}

// LinkControl lets operators steer links. Errors are of kind not found for a region
// to which there is no link.
type LinkControl interface {
	Pause(ctx context.Context, peer rhumb.RegionName, space rhumb.Space, by string) error
	Resume(ctx context.Context, peer rhumb.RegionName, space rhumb.Space) error
	// Retry has what waits tried at once; nil stands for all partitions.
	Retry(peer rhumb.RegionName, at *rhumb.Partition) (Retried, error)
	Skip(ctx context.Context, r SkipRequest) (Skip, error)
	Check(ctx context.Context, peer rhumb.RegionName) ([]LinkCheck, error)
}

// skipTime bounds how long a skip waits for its destination, and a check for all
// that it asks.
const skipTime = 20 * time.Second

// steering finds the control and the peer of a call.
func (s *Server) steering(r *http.Request) (LinkControl, rhumb.RegionName, error) {
	peer := rhumb.RegionName(r.PathValue("region"))
	if err := peer.Validate(); err != nil {
		return nil, "", err
	}
	if s.cfg.LinkControl == nil {
		return nil, "", rhumb.Errorf(rhumb.KindNotFound, "region %s has no links: it has no geo listener", s.cfg.Identity.Name)
	}
	return s.cfg.LinkControl, peer, nil
}

// linkPause answers POST …/pause, linkResume POST …/resume.
func (s *Server) linkPause(r *http.Request) (any, error) { return s.pauseOrResume(r, true) }

func (s *Server) linkResume(r *http.Request) (any, error) { return s.pauseOrResume(r, false) }

func (s *Server) pauseOrResume(r *http.Request, pause bool) (any, error) {
	control, peer, err := s.steering(r)
	if err != nil {
		return nil, err
	}
	var req api.PauseRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	var space rhumb.Space
	if req.Namespace != "" {
		if space, err = rhumb.ParseSpace(req.Namespace); err != nil {
			return nil, err
		}
	}
	word := "link to " + string(peer)
	if !space.IsZero() {
		word = "edge of " + space.String() + " to " + string(peer)
	}
	changes(r, "%s", word)
	ctx, cancel := s.untilStop(r, bodyTimeout)
	defer cancel()
	if pause {
		if err := s.knownSpace(space); err != nil {
			return nil, err
		}
		who, _ := s.callerOf(r) // admitted already
		err = control.Pause(ctx, peer, space, who.name)
	} else {
		err = control.Resume(ctx, peer, space)
		if unknown := s.knownSpace(space); rhumb.KindOf(err) == rhumb.KindNotFound && unknown != nil {
			err = unknown
		}
	}
	if err != nil {
		return nil, err
	}
	return api.PauseAnswer{Peer: peer, Namespace: req.Namespace, Paused: pause}, nil
}

// knownSpace refuses a namespace that is not there: to pause it would stop nothing,
// and whoever mistyped it would not see it. public/default is everywhere.
func (s *Server) knownSpace(space rhumb.Space) error {
	docs := s.cfg.Documents
	if space.IsZero() || space == rhumb.DefaultSpace || docs == nil {
		return nil
	}
	all := docs.Namespaces()
	if slices.ContainsFunc(all, func(n configstore.Namespace) bool { return n.Tenant == space.Tenant && n.Name == space.Namespace }) {
		return nil
	}
	return noNamespace(space, all)
}

// knownPartition refuses a partition that this region does not have: nothing of it is on
// any way, and whoever mistyped it would be told of edges.
func (s *Server) knownPartition(at rhumb.Partition) error {
	t, err := s.findTopic(at.Topic)
	if err == nil && (at.Index < 0 || int(at.Index) >= len(t.Partitions)) {
		err = noPartition(t, strconv.Itoa(int(at.Index)))
	}
	return err
}

// knownOrigin refuses a region that the mesh does not have and never had: records of one
// that was removed are still carried.
func (s *Server) knownOrigin(name rhumb.RegionName) error {
	if name == "" || s.cfg.Members == nil || slices.ContainsFunc(s.mesh(), func(r RegionEntry) bool { return r.Name == name }) {
		return nil
	}
	if _, was := s.cfg.Members.Removed(name); was {
		return nil
	}
	return s.noRegion(name)
}

// linkRetry answers POST …/retry.
func (s *Server) linkRetry(r *http.Request) (any, error) {
	control, peer, err := s.steering(r)
	if err != nil {
		return nil, err
	}
	var req api.RetryRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	changes(r, "link to %s", peer)
	var at *rhumb.Partition
	if req.Topic != "" {
		name, err := rhumb.ParseTopic(req.Topic)
		if err != nil {
			return nil, err
		}
		at = &rhumb.Partition{Topic: name, Index: req.Partition}
		if err := s.knownPartition(*at); err != nil {
			return nil, err
		}
	}
	done, err := control.Retry(peer, at)
	return api.RetryAnswer{Peer: peer, Topic: req.Topic, Flows: done.Flows, Partitions: done.Partitions, Waiting: done.Waiting, Dialled: done.Dialled}, err
}

// linkSkip answers POST …/skip.
func (s *Server) linkSkip(r *http.Request) (any, error) {
	control, peer, err := s.steering(r)
	if err != nil {
		return nil, err
	}
	var req api.SkipRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	name, err := rhumb.ParseTopic(req.Topic)
	if err != nil {
		return nil, err
	}
	origin := cmp.Or(req.Origin, s.cfg.Identity.Name)
	if err := origin.Validate(); err != nil {
		return nil, err
	}
	at := rhumb.Partition{Topic: name, Index: req.Partition}
	if err := s.knownPartition(at); err != nil {
		return nil, err
	}
	if err := s.knownOrigin(req.Origin); err != nil {
		return nil, err
	}
	changes(r, "skip of %s partition %d of region %s on the way to %s, up to offset %d, dry run: %v", name.Short(), req.Partition, origin, peer, req.To, req.DryRun)
	who, _ := s.callerOf(r) // admitted already
	ctx, cancel := s.untilStop(r, skipTime)
	defer cancel()
	done, err := control.Skip(ctx, SkipRequest{Peer: peer, Partition: at, Origin: req.Origin, To: req.To,
		By: who.name, DryRun: req.DryRun})
	if err != nil {
		return nil, err
	}
	return api.SkipAnswer{Peer: peer, Topic: name.String(), Partition: req.Partition, Origin: origin, Life: done.Life, From: done.From, To: done.To, Done: done.Done}, nil
}

// linkCheck answers GET …/check.
func (s *Server) linkCheck(r *http.Request) (any, error) {
	control, peer, err := s.steering(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.untilStop(r, skipTime)
	defer cancel()
	found, err := control.Check(ctx, peer)
	if err != nil {
		return nil, err
	}
	out := api.LinkChecks{Peer: peer, OK: true, Checks: []api.LinkCheck{}}
	for _, c := range found {
		one := api.LinkCheck{Name: c.Name, Target: c.Target, OK: c.OK, Detail: c.Detail}
		if !c.OK {
			one.Next, out.OK = c.Next, false
		}
		out.Checks = append(out.Checks, one)
	}
	return out, nil
}
