package admin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Members is what the API needs of the documents of the mesh's regions.
type Members interface {
	// Regions gives the registered regions by number.
	Regions() []configstore.Region
	// Removed gives the tombstone of a region that was removed and whose name did not
	// come back.
	Removed(rhumb.RegionName) (configstore.Region, bool)
	// Highest is the highest region number that this region has seen.
	Highest() rhumb.RegionNumber
	// Writer changes them with compare-and-set.
	Writer() *configstore.Writer
}

// Drain is what a region that takes no producers has still to send.
type Drain struct {
	State     string
	Since     time.Time
	Producing int64
	Behind    []DrainPeer
	Alone     []rhumb.Topic
}

// DrainPeer is a region that has not confirmed everything.
type DrainPeer struct {
	Peer                       rhumb.RegionName
	State                      string // of the link
	Partitions, Records, Bytes int64
	LastError                  string
}

func (s *Server) members() (Members, error) {
	if s.cfg.Members == nil {
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "this node keeps no documents of regions")
	}
	return s.cfg.Members, nil
}

// onMember runs a change of the region that the path names.
func (s *Server) onMember(r *http.Request, do func(ctx context.Context, w *configstore.Writer, name rhumb.RegionName) (configstore.Region, error)) (m api.Member, err error) {
	all, err := s.members()
	if err != nil {
		return m, err
	}
	name := rhumb.RegionName(r.PathValue("region"))
	if err := name.Validate(); err != nil {
		return m, err
	}
	changes(r, "region %s", name)
	var before uint64
	for _, doc := range all.Regions() {
		if doc.Name == name {
			before = doc.Version
		}
	}
	doc, err := do(r.Context(), all.Writer(), name)
	changesVersion(r, before, doc.Version)
	if errors.Is(err, configstore.ErrNotFound) {
		err = s.noRegion(name)
	}
	return api.Member{Name: name, Region: doc}, err
}

// memberShow answers GET /regions/{region}.
func (s *Server) memberShow(r *http.Request) (any, error) {
	all, err := s.members()
	if err != nil {
		return nil, err
	}
	name := rhumb.RegionName(r.PathValue("region"))
	for _, doc := range all.Regions() {
		if doc.Name == name {
			return api.Member{Name: name, Region: doc}, nil
		}
	}
	return nil, s.noRegion(name)
}

// noRegion is the refusal of a name that is not in the mesh: of one that was removed it
// tells that, of others which may have been meant.
func (s *Server) noRegion(name rhumb.RegionName) error {
	if was, ok := s.cfg.Members.Removed(name); ok {
		return rhumb.Errorf(rhumb.KindNotFound, "region %s was removed from the mesh at %s by %s; its number %d is retired, its data stays where it is: "+
			"see which regions there are with 'rhumb region list'; 'rhumb region register %s' takes the name into the mesh again, under a new number",
			name, was.UpdatedAt.UTC().Format(time.RFC3339), was.Who(), was.Number, name)
	}
	hint := nearest.Hint(string(name), s.mesh(), func(r *RegionEntry) string { return string(r.Name) })
	return rhumb.Errorf(rhumb.KindNotFound, "there is no region %q in this mesh%s: see which there are with 'rhumb region list'", name, hint)
}

// memberPut answers PUT /regions/{region}: with create=true it registers one, else
// it changes the addresses of one.
func (s *Server) memberPut(r *http.Request) (any, error) {
	var req api.MemberChange
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	create, err := strconv.ParseBool(r.URL.Query().Get("create"))
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "create=%s: want true or false", r.URL.Query().Get("create"))
	}
	return s.onMember(r, func(ctx context.Context, w *configstore.Writer, name rhumb.RegionName) (configstore.Region, error) {
		if create {
			doc := configstore.Region{Name: name, Number: req.Number, Geo: req.Geo, Addresses: req.Addresses}
			return w.AddRegion(ctx, doc, max(req.Seen, s.cfg.Members.Highest()))
		}
		return w.UpdateRegion(ctx, name, func(stored *configstore.Region) error {
			if req.Geo != nil {
				stored.Geo = req.Geo
			}
			addresses := maps.Clone(stored.Addresses)
			if addresses == nil {
				addresses = map[string][]string{}
			}
			maps.Copy(addresses, req.Addresses)
			maps.DeleteFunc(addresses, func(_ string, list []string) bool { return len(list) == 0 })
			stored.Addresses = addresses
			stored.Pinned = req.Pinned == nil || *req.Pinned
			return nil
		})
	})
}

// memberDrain answers POST /regions/{region}/drain.
func (s *Server) memberDrain(r *http.Request) (any, error) {
	var req api.DrainRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	return s.onMember(r, func(ctx context.Context, w *configstore.Writer, name rhumb.RegionName) (configstore.Region, error) {
		return w.DrainRegion(ctx, name, req.Undo)
	})
}

// memberReplace answers POST /regions/{region}/replace.
func (s *Server) memberReplace(r *http.Request) (any, error) {
	return s.onMember(r, func(ctx context.Context, w *configstore.Writer, name rhumb.RegionName) (configstore.Region, error) {
		return w.ReplaceRegion(ctx, name)
	})
}

// memberRemove answers DELETE /regions/{region} with its tombstone.
func (s *Server) memberRemove(r *http.Request) (any, error) {
	force, err := forced(r)
	if err != nil {
		return nil, err
	}
	out := api.RemovedMember{}
	done, err := s.onMember(r, func(ctx context.Context, w *configstore.Writer, name rhumb.RegionName) (configstore.Region, error) {
		uses, err := w.Uses(ctx, name)
		if err != nil {
			return configstore.Region{}, err
		}
		out.NamedBy = uses.Words()
		return w.RemoveRegion(ctx, name, force)
	})
	if err != nil {
		return nil, err
	}
	out.Member = done
	return out, nil
}

// drain gives what the answering region has still to send, nil if it takes producers.
func (s *Server) drain() *api.Drain {
	if s.cfg.Drain == nil {
		return nil
	}
	d := s.cfg.Drain()
	if d == nil {
		return nil
	}
	out := &api.Drain{State: d.State, Since: millis(d.Since), Producing: d.Producing, Behind: []api.DrainPeer{}, Alone: []string{}}
	for _, p := range d.Behind {
		out.Behind = append(out.Behind, api.DrainPeer(p))
	}
	for _, t := range d.Alone {
		out.Alone = append(out.Alone, t.String())
	}
	return out
}
