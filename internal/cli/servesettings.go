package cli

import (
	"log/slog"
	"os"
	"path"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
)

var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// limitSessions leaves the number to the server when its variable is set.
func (o *serveOptions) limitSessions() ([]envserver.Option, error) {
	switch {
	case o.changed("max-sessions") && o.sessions < 1:
		return nil, usagef("--max-sessions: %d is below 1", o.sessions)
	case o.changed("max-sessions"):
		return []envserver.Option{envserver.WithMaxSessions(o.sessions)}, nil
	case os.Getenv("MAX_CONCURRENT_ENVS") != "":
		return nil, nil
	}
	return []envserver.Option{envserver.WithMaxSessions(defaultSessions)}, nil
}

// askForToken keeps the token in o. An empty one is refused where somebody meant to set
// it: a script whose secret is missing must not serve everybody.
func (o *serveOptions) askForToken() ([]envserver.Option, error) {
	source := "--token"
	if !o.changed("token") {
		text, ok := os.LookupEnv(tokenVariable)
		if !ok || text == "" {
			return nil, nil
		}
		o.token, source = text, tokenVariable
	}
	o.token = strings.TrimSpace(o.token)
	switch {
	case o.token == "":
		return nil, usagef("%s is empty", source)
	case !httpguts.ValidHeaderFieldValue(o.token):
		return nil, usagef("%s has characters that no header may have", source)
	}
	return []envserver.Option{envserver.WithToken(o.token)}, nil
}

// chooseMode leaves the mode to the server when there is no flag.
func (o *serveOptions) chooseMode() ([]envserver.Option, error) {
	if !o.changed("mode") {
		return nil, nil
	}
	mode, err := openenv.ParseMode(o.mode)
	if err != nil {
		return nil, usagef("--mode: %q is neither simulation nor production", o.mode)
	}
	return []envserver.Option{envserver.WithMode(mode)}, nil
}

// allowOrigins takes hosts and, since that is what a browser calls an origin, whole
// origins, too.
func (o *serveOptions) allowOrigins() ([]envserver.Option, error) {
	var hosts []string
	for _, origin := range o.origins {
		host := origin
		if _, rest, ok := strings.Cut(origin, "://"); ok {
			host = strings.TrimSuffix(rest, "/")
		}
		if _, err := path.Match(host, ""); err != nil || host == "" || strings.ContainsAny(host, "/@# \t") {
			return nil, usagef("--origin: %q is neither a host nor a pattern of hosts", origin)
		}
		hosts = append(hosts, host)
	}
	return []envserver.Option{envserver.WithOrigins(hosts...)}, nil
}
