package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const defaultAddr = "http://127.0.0.1:8080"

// target is the flags and environment that say which region to ask.
type target struct {
	addr, region             string
	token, caCert, cert, key string
	timeout                  time.Duration // of the whole command; 0: none
}

// flags adds --addr, --region and --timeout to a command and its children.
func (t *target) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&t.addr, "addr", "", "admin API to ask (default $RHUMB_ADDR, else "+defaultAddr+")")
	f.StringVar(&t.region, "region", "", "ask this region, whose address that one knows")
	f.DurationVar(&t.timeout, timeoutFlag, 0, "give up after this long, such as 10s (default: as long as it takes)")
	offer(c, "region", t.completeRegions(1, nil))
}

const timeoutFlag = "timeout"

// env fills in what the flags leave open.
func (t *target) env() {
	if t.addr == "" {
		t.addr = os.Getenv("RHUMB_ADDR")
	}
	if t.addr == "" {
		t.addr = defaultAddr
	}
	t.token, t.caCert = os.Getenv("RHUMB_TOKEN"), os.Getenv("RHUMB_CACERT")
	t.cert, t.key = os.Getenv("RHUMB_CERT"), os.Getenv("RHUMB_KEY")
}

func (t *target) dial(url string) (*client.Client, error) {
	return client.New(client.Config{URL: url, Token: t.token, CACert: t.caCert, Cert: t.cert, Key: t.key})
}

// connect gives a client for the region that is meant.
func (t *target) connect(ctx context.Context) (*client.Client, error) {
	t.env()
	if t.region != "" {
		return t.byName(ctx, t.region)
	}
	return t.dial(t.addr)
}

// resolve gives a client for a region's name, or for a URL or host:port.
func (t *target) resolve(ctx context.Context, name string) (*client.Client, error) {
	t.env()
	if strings.ContainsAny(name, ":/") {
		return t.dial(name)
	}
	return t.byName(ctx, name)
}

// regionWait is how long verify waits for a region that the one asked does not know
// yet, or of which it knows no address: after the first start of a mesh each
// registers itself, and the others hear of it within moments.
const regionWait = 5 * time.Second

// await is resolve for a region that may be starting for the first time.
func (t *target) await(ctx context.Context, name string) (*client.Client, error) {
	limit := time.NewTimer(regionWait)
	defer limit.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := t.resolve(ctx, name)
		if !errors.Is(err, errNotKnown) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-limit.C:
			return nil, err
		case <-tick.C:
		}
	}
}

// errNotKnown says that a region, or where it is, is not known where it was asked.
var errNotKnown = errors.New("the name may be wrong, or the region has not started yet")

// byName asks the first address where a region is, and takes the first of its
// addresses that answers as that region.
func (t *target) byName(ctx context.Context, name string) (*client.Client, error) {
	if err := rhumb.RegionName(name).Validate(); err != nil {
		return nil, &usageError{err}
	}
	first, err := t.dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	regions, err := first.Regions(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range regions {
		if string(r.Name) == name {
			return t.firstThatAnswers(ctx, r)
		}
	}
	if _, err := first.Member(ctx, rhumb.RegionName(name)); err != nil && strings.Contains(err.Error(), "was removed from the mesh") {
		return nil, err
	}
	return nil, rhumb.Errorf(rhumb.KindNotFound, "there is no region %q%s: %s knows %s; %w", name,
		nearest.Hint(name, regions, func(r *api.RegionEntry) string { return string(r.Name) }), t.addr, names(regions), errNotKnown)
}

func names(regions []api.RegionEntry) string {
	var all []string
	for _, r := range regions {
		all = append(all, string(r.Name))
	}
	return strings.Join(all, ", ")
}

// answerLimit is how long one address of a region may take to say who answers there. A
// process that hangs takes connections and says nothing. Tests shorten it.
var answerLimit = 10 * time.Second

// firstThatAnswers takes the first of a region's addresses that answers as that region.
// If none does, the error is of the one that got furthest.
func (t *target) firstThatAnswers(ctx context.Context, r api.RegionEntry) (*client.Client, error) {
	err := rhumb.Errorf(rhumb.KindUnavailable, "region %s has no admin address that is known: give its URL instead; %w", r.Name, errNotKnown)
	furthest := -1
	for _, url := range r.Admin {
		c, bad := t.answersAs(ctx, url, r.Name)
		if bad == nil {
			return c, nil
		}
		if n := how(bad); n >= furthest {
			furthest, err = n, bad
		}
	}
	return nil, err
}

// errOther says that another region answers.
var errOther = errors.New("correct its addresses with 'rhumb region update'")

// answersAs gives a client for an address where that region answers.
func (t *target) answersAs(ctx context.Context, url string, name rhumb.RegionName) (*client.Client, error) {
	c, err := t.dial(url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	info, err := c.Region(ctx)
	if err == nil && info.Name == name {
		return c, nil
	}
	c.Close()
	if err == nil {
		err = rhumb.Errorf(rhumb.KindUnavailable, "%s is region %s, not %s: %w", url, info.Name, name, errOther)
	}
	return nil, err
}

// how tells how far an address got that is not used: an API that refuses is where the
// region is, another region or another protocol is not.
func how(err error) int {
	switch k := rhumb.KindOf(err); {
	case k != rhumb.KindUnavailable && k != rhumb.KindTimeout:
		return 2
	case errors.Is(err, errOther):
		return 1
	}
	return 0
}

// short gives a topic's short name, or what came if it is none.
func short(full string) string {
	t, err := rhumb.ParseTopic(full)
	if err != nil {
		return full
	}
	return t.Short()
}
