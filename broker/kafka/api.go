package kafka

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one API of the protocol at the versions that are handled.
type api struct {
	key      int16
	min, max int16
	flexible int16 // first version with compact encodings and tagged headers
	fromZero bool  // advertise from version 0 on; those below min are refused
	handle   handler
}

// handler begins a request in the connection's reader, so what it does keeps
// the order of requests. Its reply is called by the writer. A nil reply means
// that the request has no answer; an error closes the connection.
type handler func(ctx context.Context, r *request) (reply, error)

// reply waits for a request's answer; it must end soon after ctx is done.
type reply func(ctx context.Context) response

// response is an encoded answer without its header.
type response struct {
	bufs    net.Buffers
	placed  []placed // what is sent from files between bufs
	release func()   // called once when the answer is sent or given up; may be nil
	silent  bool     // nothing is sent
}

// apis is filled by the init functions of the API files.
var apis = map[int16]*api{}

// register adds an API. Handling a version above what the codec has would be a
// mistake of ours, found at start.
func register(a api) {
	proto := kmsg.RequestForKey(a.key)
	if proto == nil || a.max > proto.MaxVersion() || a.min > a.max || apis[a.key] != nil {
		panic(fmt.Sprintf("kafka: api %d versions %d to %d cannot be registered", a.key, a.min, a.max))
	}
	a.flexible = a.max + 1
	for v := a.max; v >= a.min; v-- {
		if proto.SetVersion(v); proto.IsFlexible() {
			a.flexible = v
		}
	}
	apis[a.key] = &a
}

// offered lists the registered APIs by key.
func offered() []*api {
	list := make([]*api, 0, len(apis))
	for _, a := range apis {
		list = append(list, a)
	}
	slices.SortFunc(list, func(x, y *api) int { return int(x.key) - int(y.key) })
	return list
}

// handlerWait bounds how long a request may keep those behind it on its
// connection from being read.
const handlerWait = 30 * time.Second

// decodes makes a handler of a function on a decoded request that answers at
// once.
func decodes[T any, P interface {
	*T
	kmsg.Request
}](fn func(ctx context.Context, r *request, req P) (kmsg.Response, error)) handler {
	return func(ctx context.Context, r *request) (reply, error) {
		req, err := decode[T, P](r)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, handlerWait)
		defer cancel()
		resp, err := fn(ctx, r, req)
		if err != nil {
			return nil, err
		}
		encoded := resp.AppendTo(nil)
		if err := r.keep(ctx, int64(len(encoded))); err != nil {
			return nil, err
		}
		return func(context.Context) response { return response{bufs: net.Buffers{encoded}} }, nil
	}
}

// decode reads the body of a request, which holds what the decoded form takes. While
// it is decoded it may take more: that has a budget of its own, in which only whole
// requests wait, and for moments.
func decode[T any, P interface {
	*T
	kmsg.Request
}](r *request) (P, error) {
	req := P(new(T))
	req.SetVersion(r.version)
	room, err := r.decodeRoom()
	if err != nil {
		return nil, err
	}
	if err := r.conn.server.decoding.Acquire(r.conn.ctx, room); err != nil {
		return nil, err
	}
	err = req.ReadFrom(r.body)
	r.conn.server.decoding.Release(room)
	if err != nil {
		return nil, fmt.Errorf("%w: %s version %d: %w", errMalformed, kmsg.NameForKey(r.api.key), r.version, err)
	}
	r.hold(int64(len(r.body)) * decodedFactor)
	return req, nil
}

// ready is the reply of an answer that is there.
func ready(resp kmsg.Response) reply {
	bufs := net.Buffers{resp.AppendTo(nil)}
	return func(context.Context) response { return response{bufs: bufs} }
}
