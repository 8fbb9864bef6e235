package metrics

import (
	"context"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/castnet-io/castnet/agent"
)

// Write writes the metrics of hosts as text.
func Write(w io.Writer, hosts []agent.Metrics) error {
	families, err := gatherer(hosts).Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return err
		}
	}
	return nil
}

// Handler answers a scrape with the metrics of one host and those of this process. get returns the
// host's; an error makes the answer 503 Service Unavailable.
func Handler(get func(context.Context) (agent.Metrics, error)) http.Handler {
	process := prometheus.NewRegistry()
	process.MustRegister(
		collectors.NewBuildInfoCollector(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, err := get(r.Context())
		if err != nil {
			http.Error(w, "cannot collect metrics: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		all := prometheus.Gatherers{process, gatherer([]agent.Metrics{host})}
		promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}

func gatherer(hosts []agent.Metrics) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(newCollector(hosts))
	return r
}
