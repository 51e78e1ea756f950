package envserver_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// Report 52: with a token every route but health asks for it, before anything is made.
// The comparison is of hashes, in constant time: a prefix is as wrong as anything else.
func TestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		const token = "correct horse"
		w := inMemory(t, envserver.WithToken(token))
		for _, tt := range []struct {
			name, header string
			ok           bool
		}{
			{"none", "", false},
			{"right", "Bearer correct horse", true},
			{"scheme in lower case", "bearer correct horse", true},
			{"another scheme", "Basic correct horse", false},
			{"no scheme", "correct horse", false},
			{"a prefix", "Bearer correct hors", false},
			{"longer", "Bearer correct horses", false},
			{"empty", "Bearer ", false},
			{"another case", "Bearer Correct horse", false},
		} {
			header := http.Header{}
			if tt.header != "" {
				header.Set("Authorization", tt.header)
			}
			if status, _ := w.request("/health", "", header.Clone()); status != 200 {
				t.Errorf("%s: health: %d", tt.name, status)
			}
			for _, route := range []struct{ path, body string }{
				{"/metadata", ""}, {"/schema", ""}, {"/state", ""}, {"/step", `{"action":{"do":"x"}}`}, {"/docs", ""}, {"/openapi.json", ""}, {"/metrics", ""},
				{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`}, {"/nope", ""}, {"/list_environments", ""},
			} {
				built := w.built
				status, body := w.request(route.path, route.body, header.Clone())
				if (status == 401) == tt.ok || !tt.ok && (body != `{"detail":"Unauthorized"}` || w.built != built) {
					t.Errorf("%s: %s: %d %s", tt.name, route.path, status, body)
				}
				if strings.Contains(body, token) {
					t.Errorf("%s tells the token", route.path)
				}
			}
			s, err := w.tryDial("", header)
			if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "401") {
				t.Errorf("%s: upgrade: %v", tt.name, err)
			}
			if err == nil {
				_ = s.ws.CloseNow()
			}
			settle()
		}
	})
	if _, err := envserver.New(labSpec, new(lab).make, envserver.WithToken(" ")); err == nil {
		t.Error("an empty token was taken")
	}
}

// A browser's page may use the server when it is the server's own or a listed one, and
// a name that was made to point at loopback is not the server's own.
func TestOrigin(t *testing.T) {
	l := new(lab)
	srv := l.server(t, envserver.WithOrigins("app.example.com", "*.trusted.example"))
	defer func() {
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	}()
	for _, tt := range []struct {
		origin, host string
		remote       bool // the server is not addressed on loopback
		ok           bool
	}{
		{"", "localhost:8000", false, true},
		{"http://localhost:8000", "localhost:8000", false, true},
		{"http://LOCALHOST:8000", "localhost:8000", false, true},
		{"http://127.0.0.1:8000", "127.0.0.1:8000", false, true},
		{"http://[::1]:8000", "[::1]:8000", false, true},
		{"http://localhost:3000", "localhost:8000", false, false},
		{"https://evil.example", "localhost:8000", false, false},
		{"null", "localhost:8000", false, false},
		{"%zz", "localhost:8000", false, false},
		{"https://app.example.com", "localhost:8000", false, true},
		{"https://a.trusted.example", "localhost:8000", false, true},
		{"https://trusted.example", "localhost:8000", false, false},
		{"https://app.example.com.evil.example", "localhost:8000", false, false},
		{"http://evil.example:8000", "evil.example:8000", false, false}, // its name was made to point here
		{"http://env.example:8000", "env.example:8000", true, true},
		{"http://10.0.0.5:8000", "10.0.0.5:8000", true, true},
	} {
		t.Run(tt.origin+" at "+tt.host, func(t *testing.T) {
			for _, path := range []string{"/metadata", "/state", "/ws"} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				r.Host = tt.host
				if tt.origin != "" {
					r.Header.Set("Origin", tt.origin)
				}
				at := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000}
				if tt.remote {
					at.IP = net.IPv4(10, 0, 0, 5)
				}
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &at))
				rec := httptest.NewRecorder()
				srv.ServeHTTP(rec, r)
				if (rec.Code != http.StatusForbidden) != tt.ok {
					t.Errorf("%s: %d", path, rec.Code)
				}
			}
		})
	}
}

// Report 57: in production mode the HTTP control routes are not there. The socket's
// frames are the peer's, unless they are closed, too: then mcp frames alone work.
func TestProduction(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opts  []envserver.Option
		route int
		frame string
	}{
		{"simulation", []envserver.Option{envserver.WithMode(openenv.ModeSimulation), envserver.WithStrictProduction()}, 200, "open"},
		{"production", []envserver.Option{envserver.WithMode(openenv.ModeProduction)}, 404, "open"},
		{"strict production", []envserver.Option{envserver.WithMode(openenv.ModeProduction), envserver.WithStrictProduction()}, 404, "closed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				w := inMemory(t, tt.opts...)
				for _, r := range []struct{ path, body string }{{"/reset", "{}"}, {"/step", `{"action":{"do":"x"}}`}, {"/state", ""}} {
					if status, body := w.get(r.path, r.body); status != tt.route {
						t.Errorf("%s: %d %s", r.path, status, body)
					}
					_, doc := w.get("/openapi.json", "")
					if strings.Contains(doc, `"`+r.path+`"`) != (tt.route == 200) {
						t.Errorf("%s in openapi.json", r.path)
					}
				}
				for _, path := range []string{"/health", "/metadata", "/schema", "/docs", "/openapi.json", "/list_environments", "/metrics"} {
					if status, _ := w.get(path, ""); status != 200 {
						t.Errorf("%s: %d", path, status)
					}
				}
				s := w.dial("")
				for _, f := range []struct{ frame, open, closed string }{
					{`{"type":"reset","data":{}}`, "observation", "reset is not available in production mode"},
					{`{"type":"step","data":{"do":"x"}}`, "observation", "step is not available in production mode"},
					{`{"type":"step","data":{}}`, "VALIDATION_ERROR", "step is not available in production mode"},
					{`{"type":"state"}`, `"type":"state"`, "state is not available in production mode"},
					{`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}}`, `"session_id"`, `"session_id"`},
					{`{"type":"nope"}`, "UNKNOWN_TYPE", "UNKNOWN_TYPE"},
					{`{"type":"close"}`, "closed 1000", "closed 1000"},
				} {
					s.send(f.frame)
					if tt.frame == "open" {
						want(t, s.receive(), f.open)
					} else {
						want(t, s.receive(), f.closed)
					}
				}
			})
		})
	}
}

// Report 79: a variable that is no number is named; an empty one is the default.
func TestVariables(t *testing.T) {
	for _, tt := range []struct {
		name, sessions, mode string
		limit                string
		err                  string
	}{
		{"unset", "", "", "1", ""},
		{"sessions", "4", "", "4", ""},
		{"production", "", "Production", "1", ""},
		{"not a number", "abc", "", "", `environment variable MAX_CONCURRENT_ENVS: "abc" is not a number of sessions`},
		{"zero", "0", "", "", `environment variable MAX_CONCURRENT_ENVS: "0"`},
		{"negative", "-1", "", "", `environment variable MAX_CONCURRENT_ENVS: "-1"`},
		{"a fraction", "1.5", "", "", `environment variable MAX_CONCURRENT_ENVS: "1.5"`},
		{"no mode", "", "test", "", `environment variable OPENENV_MODE: mode "test" is neither simulation nor production`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("MAX_CONCURRENT_ENVS", tt.sessions)
			t.Setenv("OPENENV_MODE", tt.mode)
			srv, err := envserver.New(labSpec, new(lab).make)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("New: %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			rec := httptest.NewRecorder()
			srv.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			want(t, rec.Body.String(), "openenv_sessions_limit "+tt.limit)
			rec = httptest.NewRecorder()
			srv.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/state", nil))
			if (rec.Code == 404) != (tt.mode != "") {
				t.Errorf("state: %d", rec.Code)
			}
		})
	}
	t.Setenv("MAX_CONCURRENT_ENVS", "abc")
	if _, err := envserver.New(labSpec, new(lab).make, envserver.WithMaxSessions(2)); err != nil {
		t.Errorf("an option is set, the variable matters: %v", err)
	}
}
