package envserver

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/openenv-go/openenv/internal/wire"
)

// metrics are a server's own: two servers in a process do not share a registry.
type metrics struct {
	registry *prometheus.Registry
	refused  prometheus.Counter
	expired  prometheus.Counter
	received prometheus.Counter
	sent     prometheus.Counter
	seconds  map[string]prometheus.Observer // by kind of call
	errors   *prometheus.CounterVec
}

func newMetrics(s *Server) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "openenv", Name: name, Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		refused:  counter("sessions_refused_total", "Sessions refused because no slot was free."),
		expired:  counter("sessions_expired_total", "Sessions made over HTTP whose client did not come back within the lease."),
		received: counter("received_bytes_total", "Bytes of messages received on sockets."),
		sent:     counter("sent_bytes_total", "Bytes of messages sent on sockets."),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "openenv", Name: "errors_total", Help: "Error frames sent, by code.",
		}, []string{"code"}),
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "openenv", Name: "call_seconds", Help: "Time of calls on environments; the count of op=\"step\" is the number of steps, that of op=\"mcp\" of calls and lists of tools over MCP.",
		Buckets: prometheus.ExponentialBuckets(10e-6, 4, 12),
	}, []string{"op"})
	m.seconds = map[string]prometheus.Observer{
		wire.TypeReset: seconds.WithLabelValues(wire.TypeReset),
		wire.TypeStep:  seconds.WithLabelValues(wire.TypeStep),
		wire.TypeState: seconds.WithLabelValues(wire.TypeState),
		wire.TypeMCP:   seconds.WithLabelValues(wire.TypeMCP),
	}
	active := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "openenv", Name: "sessions_active", Help: "Sessions that hold a slot.",
	}, func() float64 { return float64(s.slots.active()) })
	limit := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "openenv", Name: "sessions_limit", Help: "Slots of the server.",
	}, func() float64 { return float64(s.slots.limit) })
	m.registry.MustRegister(m.refused, m.expired, m.received, m.sent, m.errors, seconds, active, limit) // fresh names in a fresh registry
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// observe records the time of a call.
func (m *metrics) observe(typ string, since time.Time) {
	if seconds, ok := m.seconds[typ]; ok { // the calls that answer other routes have none
		seconds.Observe(time.Since(since).Seconds())
	}
}

func (m *metrics) failed(code string) { m.errors.WithLabelValues(code).Inc() }
