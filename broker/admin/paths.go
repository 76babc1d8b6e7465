package admin

import (
	"net/http"

	"github.com/rhumbmq/rhumb/broker/admin/api"
)

// paths answers GET /paths.
func (s *Server) paths(r *http.Request) (any, error) {
	list := api.PathList{Origins: []api.OriginPaths{}}
	if s.cfg.Paths == nil {
		return list, nil
	}
	name := s.namer()
	for _, o := range s.cfg.Paths() {
		if !scopeOf(r).covers(o.Topic.Tenant) {
			continue
		}
		out := api.OriginPaths{Topic: o.Topic.String(), Partition: o.Partition, Region: o.Region, RegionName: name(o.Region), Life: o.Life,
			Moved: api.PathMove{At: millis(o.Moved.At), From: o.Moved.From, To: o.Moved.To, Why: o.Moved.Why}, Waits: o.Waits, Paths: []api.Path{}}
		for _, p := range o.Paths {
			if p.State == "used" {
				out.Over = p.Over
			}
			out.Paths = append(out.Paths, api.Path{Over: p.Over, State: p.State, Hops: p.Hops, Since: millis(p.Since), End: p.End, Floor: p.Floor})
		}
		list.Origins = append(list.Origins, out)
	}
	return list, nil
}
