package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/load"
)

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{5, 1, 4, 2, 3}, spread{Median: 3, Q1: 2, Q3: 4}},
	} {
		if got := spreadOf(tt.values); got != tt.want {
			t.Errorf("%v: %+v, want %+v", tt.values, got, tt.want)
		}
	}
	if got := ratios([]float64{4, 9}, []float64{2, 3}); got[0] != 2 || got[1] != 3 {
		t.Errorf("ratios %v", got)
	}
}

func TestNumbersKeepThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0.1234: "0.12", 1.5: "1.50", 12.34: "12.3", 1234.5: "1234", 7: "7", 100: "100"} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

func TestGrowth(t *testing.T) {
	samples := func(f func(i int) int64) (held []load.Sample) {
		for i := range 60 {
			held = append(held, load.Sample{Server: f(i)})
		}
		return held
	}
	server := func(s load.Sample) int64 { return s.Server }
	if got := growth(samples(func(i int) int64 { return int64(100 + min(i, 20)) }), server); got != 1 {
		t.Errorf("memory that settles grew %v ×", got)
	}
	if got := growth(samples(func(i int) int64 { return int64(100 + 10*i) }), server); got < 1.2 {
		t.Errorf("memory that leaks grew %v ×", got)
	}
}

// What the benchmark adds is the latency that it says.
func TestDelay(t *testing.T) {
	leak.Check(t)
	srv, err := newServer(1)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(srv)
	defer func() { _ = srv.Shutdown(context.Background()); ts.Close() }()
	d, err := delay(strings.TrimPrefix(ts.URL, "http://"), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	env, err := openenv.New(echo.Spec, d.url(), openenv.WithHTTPClient(&http.Client{Transport: new(http.Transport)}))
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	if err := env.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	res, err := env.Step(t.Context(), echo.Action{Message: message(medium)})
	if err != nil || len(res.Observation.Echoed) != medium {
		t.Fatalf("%d characters, %v", len(res.Observation.Echoed), err)
	}
	if took := time.Since(begin); took < 40*time.Millisecond {
		t.Errorf("a step took %v, with 20 ms in each direction", took)
	}
}

func TestPage(t *testing.T) {
	b := &bench{cfg: config{rounds: 5}}
	b.measured = []*contender{
		{key: key{goTyped, goServer, 1, small}, us: []float64{26, 26, 26}},
		{key: key{bareWS, floorTwo, 1, small}, us: []float64{20, 20, 20}},
		{key: key{pyAsync, pyServer, 1, small}, us: []float64{130, 130, 130}},
	}
	b.report = Report{Machine: "a machine", Rounds: 5, Figures: b.figures(), Ratios: b.judge()}
	table := Table{Title: "A table", Command: "a command", Header: []string{"a", "b"}}
	table.add("x", 1.5)
	b.report.Tables = append(b.report.Tables, table)
	page := string(b.page(""))
	for _, want := range []string{
		"| step ÷ bare WebSocket, two processes | 1.30 × | ≤ 1.3 × | yes |",
		"| Python async pair ÷ Go pair | 5 × | ≥ 6 × | **no** |",
		"| Go | Go | 26 (26 – 26) | 38462 |",
		"## A table", "Command: `a command`", "| x | 1.50 |", "## Reading it",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
