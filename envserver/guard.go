package envserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// guard checks what must hold before a request reaches a route other than health: the
// bearer token and, for requests that come from a browser, the page's origin. A session
// is only made behind it.
func (s *Server) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.set.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			next.ServeHTTP(w, r)
			return
		}
		if s.set.token != "" && !carries(r, want) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeDetail(w, http.StatusUnauthorized, "Unauthorized")
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !s.allows(origin, r) {
			writeDetail(w, http.StatusForbidden, "origin is not allowed")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// carries compares in constant time; hashing makes the lengths equal.
func carries(r *http.Request, want [sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// allows reports whether a page of that origin may make the request: one of the server's
// own address, or a listed one.
func (s *Server) allows(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	if strings.EqualFold(u.Host, r.Host) && !rebound(r) {
		return true
	}
	for _, pattern := range s.set.origins {
		if ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(u.Host)); err == nil && ok {
			return true
		}
	}
	return false
}

// rebound reports whether a name that is not this machine's led to its loopback
// address: so does the name of an attacker's page that was made to point there.
func rebound(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return false
	}
	host := (&url.URL{Host: r.Host}).Hostname()
	ip := net.ParseIP(host)
	return !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback())
}
