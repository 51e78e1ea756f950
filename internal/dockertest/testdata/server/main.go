// Command server is the echo environment in an image, with the faults that tests of
// container providers need. It is configured by its environment: PORT, and FAULT:
//
//	die      ends at once with code 3
//	die:2s   serves and ends after that time with code 3
//	slow:2s  is healthy only after that time
//	never    answers, and is never healthy
//	html     answers a page where its health should be
//	deaf     takes no notice of TERM
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
)

// env is an echo whose episodes have the replica's name in theirs.
type env struct{ *echo.Env }

func (e env) Reset(ctx context.Context, p envserver.ResetParams) (openenv.StepResult[echo.Observation], error) {
	host, err := os.Hostname()
	if err != nil {
		return openenv.StepResult[echo.Observation]{}, err
	}
	p.EpisodeID = cmp.Or(p.EpisodeID, host+"/"+rand.Text())
	return e.Env.Reset(ctx, p)
}

func build(ctx context.Context) (env, error) {
	e, err := echo.New(ctx)
	return env{e}, err
}

func main() {
	fault, arg, _ := strings.Cut(os.Getenv("FAULT"), ":")
	after, _ := time.ParseDuration(arg)
	if fault == "die" && after == 0 {
		fatal("the model file is missing")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if fault == "deaf" {
		ctx = context.Background()
	}
	srv, err := envserver.New(echo.Spec, build, envserver.WithMaxSessions(64))
	if err != nil {
		fatal(err)
	}
	born := time.Now()
	mux := http.NewServeMux()
	mux.Handle("/", srv)
	mux.HandleFunc("GET /sessions", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, srv.ActiveSessions()) })
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case fault == "html":
			fmt.Fprint(w, "<!DOCTYPE html><title>Starting</title>")
		case fault == "never", fault == "slow" && time.Since(born) < after:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			srv.ServeHTTP(w, r)
		}
	})
	if fault == "die" {
		time.AfterFunc(after, func() { fatal("out of memory, so to speak") })
	}
	port := cmp.Or(os.Getenv("PORT"), "8000")
	fmt.Fprintln(os.Stderr, "serving on port", port)
	hs := &http.Server{Addr: ":" + port, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := hs.ListenAndServe(); err != nil {
			fatal(err)
		}
	}()
	<-ctx.Done()
	fmt.Fprintln(os.Stderr, "stopping")
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		fatal(err)
	}
}

func fatal(v any) {
	fmt.Fprintln(os.Stderr, "server:", v)
	os.Exit(3)
}
