package admin

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rhumbmq/rhumb/region"
)

// metrics is the node's registry. Labels come from small, fixed sets: routes,
// peer regions, states. Nothing is labelled by topic or partition but the lag of
// consumer groups, up to a limit; the API has those figures.
type metrics struct {
	registry *prometheus.Registry
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rhumb_admin_requests_total",
			Help: "Requests to the admin API by call and status."}, []string{"method", "route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rhumb_admin_request_duration_seconds",
			Help: "Time to answer requests to the admin API.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)},
			[]string{"method", "route"}),
	}
	m.registry.MustRegister(m.requests, m.seconds, &nodeCollector{s},
		goCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: 4, Timeout: writeTimeout})
	return m
}

// goCollector tells Go's figures, with what the last collection of garbage left: other
// figures of the heap move with the collector's rhythm, so that growth shows late.
func goCollector() prometheus.Collector {
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
		collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}))
}

func (m *metrics) request(rt route, status int, took time.Duration) {
	m.requests.WithLabelValues(rt.method, rt.path, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(rt.method, rt.path).Observe(took.Seconds())
}

// serveMetrics answers GET /metrics.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	s.metrics.handler.ServeHTTP(w, r)
	return nil
}

// nodeCollector reads the node's figures at each scrape; it keeps none. It is
// "unchecked": what other rooms emit is not known beforehand.
type nodeCollector struct{ s *Server }

func (c *nodeCollector) Describe(chan<- *prometheus.Desc) {}

func (c *nodeCollector) Collect(out chan<- prometheus.Metric) {
	emit := func(m Metric) { out <- promMetric(m) }
	gauge := func(name, help string, v float64, labels ...string) {
		emit(Metric{Name: name, Help: help, Value: v, Labels: labels})
	}
	v := c.s.cfg.Version
	gauge("rhumb_build_info", "The running build; always 1.", 1, "version", v.Version, "commit", v.Commit, "go", v.Go)
	h := c.s.health()
	gauge("rhumb_live", "1 while the node lives.", truth(h.Live))
	gauge("rhumb_ready", "1 while the node takes requests.", truth(h.Ready))
	gauge("rhumb_health_problems", "Named problems of the node now.", float64(len(h.Problems)))
	c.logs(gauge)
	for _, l := range c.s.linkSums() {
		c.link(l, emit)
	}
	for _, source := range c.s.cfg.Metrics {
		source(emit)
	}
}

func (c *nodeCollector) logs(gauge func(name, help string, v float64, labels ...string)) {
	sum := c.s.sums()
	gauge("rhumb_topics", "Topics of the region.", float64(sum.Topics))
	gauge("rhumb_partitions", "Partitions of the region.", float64(sum.Partitions))
	gauge("rhumb_partitions_open", "Partitions that are open on this node.", float64(sum.Open))
	gauge("rhumb_log_bytes", "Bytes of the batches that are kept.", float64(sum.Bytes))
	gauge("rhumb_gap_records", "Gap records that are kept: ranges of records that will never come.", float64(sum.Gaps))
}

// sums adds up the region's topics.
func (s *Server) sums() (sum region.Sums) {
	if s.cfg.Sums != nil {
		return s.cfg.Sums()
	}
	topics := s.cfg.Topics.Topics()
	sum.Topics = len(topics)
	for _, t := range topics {
		for _, p := range t.Partitions {
			sum.Partitions++
			st, there := s.cfg.Logs.State(p.Ref)
			if !p.Ready || !there {
				continue
			}
			sum.Open++
			sum.Bytes += st.Bytes
			sum.Gaps += uint64(len(s.cfg.Logs.Gaps(p.Ref)))
		}
	}
	return sum
}

// linkSums gives the links, with or without their partitions.
func (s *Server) linkSums() []Link {
	switch {
	case s.cfg.LinkSums != nil:
		return s.cfg.LinkSums()
	case s.cfg.Links != nil:
		return s.cfg.Links()
	}
	return nil
}

// linkStates are the states of a link that each have a series from the start. A
// state that is not among them has its series while the link is in it.
var linkStates = []string{"connected", "flowing", "idle", "held", "stalled", "disconnected", "refused", "diverged", "paused"}

// lagFigures is how many of a link's figures, the first ones, are about lag.
const lagFigures = 3

func (c *nodeCollector) link(l Link, emit func(Metric)) {
	peer := string(l.Peer)
	states := linkStates
	if !slices.Contains(states, l.State) {
		states = append(slices.Clone(states), l.State)
	}
	for _, state := range states {
		emit(Metric{Name: "rhumb_link_state", Help: "1 for the state that the link is in.",
			Labels: []string{"peer_region", peer, "state", state}, Value: truth(l.State == state)})
	}
	emit(Metric{Name: "rhumb_link_diverged_partitions", Help: "Partitions whose copy in the peer region differs where it must not.",
		Labels: []string{"peer_region", peer}, Value: float64(l.Diverged)})
	emit(Metric{Name: "rhumb_link_refused_partitions", Help: "Partitions of which the peer region does not take what comes next.",
		Labels: []string{"peer_region", peer}, Value: float64(l.Refused)})
	emit(Metric{Name: "rhumb_link_pauses", Help: "Edges to the peer region, or all of a link, that an operator has paused.",
		Labels: []string{"peer_region", peer}, Value: float64(len(l.Pauses))})
	if !l.Heard.IsZero() {
		emit(Metric{Name: "rhumb_link_heard_seconds", Help: "Since the peer region was last heard of on its connection.",
			Labels: []string{"peer_region", peer}, Value: max(0, time.Since(l.Heard).Seconds())})
	}
	emit(Metric{Name: "rhumb_link_rtt_seconds", Help: "Round trip to the peer region.",
		Labels: []string{"peer_region", peer}, Value: l.RTT.Seconds()})
	for _, m := range []Metric{
		{Name: "rhumb_link_diverged_tries_total", Help: "Sessions to the peer region that ended since the copies differ.", Value: float64(l.DivergedTries), Counter: true},
		{Name: "rhumb_link_connections", Help: "Open connections to the peer region.", Value: float64(l.Path.Connections)},
		{Name: "rhumb_link_connections_lost_total", Help: "Further connections to the peer region that broke.", Value: float64(l.Path.ConnectionsLost), Counter: true},
		{Name: "rhumb_link_loss_ratio", Help: "Part of the packets sent to the peer region that were lost.", Value: l.Path.Loss},
		{Name: "rhumb_link_goodput_bytes_per_second", Help: "Bytes per second, as they are sent, so after compression, that the path to the peer region took.", Value: l.Path.Goodput},
		{Name: "rhumb_link_padding_bytes_total", Help: "Padding that was sent to warm connections to the peer region up.", Value: float64(l.Path.PaddingBytes), Counter: true},
		{Name: "rhumb_link_fec_loss_ratio", Help: "Part of the packets sent to the peer region that its path loses, before correction.", Value: l.Path.FECLoss},
		{Name: "rhumb_link_fec_overhead_ratio", Help: "Parity packets per packet sent to the peer region; 0 while nothing is corrected.", Value: overhead(l.Path.FEC)},
		{Name: "rhumb_link_fec_recovered_total", Help: "Lost packets that the peer region recovered.", Value: float64(l.Path.FECRecovered), Counter: true},
		{Name: "rhumb_link_fec_recovered_here_total", Help: "Lost packets of the peer region that were recovered here.", Value: float64(l.Path.FECRecoveredHere), Counter: true},
		{Name: "rhumb_link_fec_parity_bytes_total", Help: "Bytes that correction sent to the peer region besides the packets.", Value: float64(l.Path.FECParityBytes), Counter: true},
		{Name: "rhumb_link_lag_unknown_partitions", Help: "Partitions of which the peer region has not told this process what it has: while there are any, the lag outwards is a lower bound.", Value: float64(l.Out.LagUnknown)},
	} {
		m.Labels = []string{"peer_region", peer}
		emit(m)
	}
	for direction, f := range map[string]Flow{"out": l.Out, "in": l.In} {
		labels := []string{"peer_region", peer, "direction", direction}
		figures := []Metric{
			{Name: "rhumb_link_lag_records", Help: "Records that the destination has not confirmed, at least; -1 unknown.", Value: float64(f.LagRecords)},
			{Name: "rhumb_link_lag_bytes", Help: "Bytes that the destination has not confirmed, at least; -1 unknown.", Value: float64(f.LagBytes)},
			{Name: "rhumb_link_lag_seconds", Help: "Age of the oldest unconfirmed record, at least; -1 unknown.", Value: lagSeconds(f.Lag)},
			{Name: "rhumb_link_bytes_total", Help: "Bytes of batches carried.", Value: float64(f.Bytes), Counter: true},
			{Name: "rhumb_link_records_total", Help: "Records carried.", Value: float64(f.Records), Counter: true},
			{Name: "rhumb_link_rewinds_total", Help: "Times that sending went back to the watermark.", Value: float64(f.Rewinds), Counter: true},
		}
		if direction == "in" {
			figures = figures[lagFigures:] // only a sender knows how far its destination is behind
		}
		for _, m := range figures {
			m.Labels = labels
			emit(m)
		}
	}
}

// overhead reads a strength such as 20+4: what it adds per packet.
func overhead(fec string) float64 {
	var data, parity float64
	if _, err := fmt.Sscanf(fec, "%f+%f", &data, &parity); err != nil || data <= 0 {
		return 0
	}
	return parity / data
}

// promMetric translates; a metric with an odd number of labels is the caller's
// fault and shows as an error in the scrape.
func promMetric(m Metric) prometheus.Metric {
	var names, values []string
	for i := 0; i+1 < len(m.Labels); i += 2 {
		names, values = append(names, m.Labels[i]), append(values, m.Labels[i+1])
	}
	kind := prometheus.GaugeValue
	if m.Counter {
		kind = prometheus.CounterValue
	}
	desc := prometheus.NewDesc(m.Name, m.Help, names, nil)
	metric, err := prometheus.NewConstMetric(desc, kind, m.Value, values...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return metric
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
