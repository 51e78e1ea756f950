package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// Route is where a server shows its ledger, as a JSON object of episodes.
const Route = "/ledger"

// Episode is what was done to one episode.
type Episode struct {
	Resets int   `json:"resets"` // how often a reset started it
	Steps  []int `json:"steps"`  // the ids of the applied actions, in their order
}

// Ledger lists what was applied, by episode id. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	episodes map[string]Episode
}

// Episodes returns a copy.
func (l *Ledger) Episodes() map[string]Episode {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := maps.Clone(l.episodes)
	for id, e := range all {
		e.Steps = slices.Clone(e.Steps)
		all[id] = e
	}
	return all
}

func (l *Ledger) write(id string, change func(*Episode)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.episodes == nil {
		l.episodes = map[string]Episode{}
	}
	e := l.episodes[id]
	change(&e)
	l.episodes[id] = e
}

// ServeHTTP answers with all episodes.
func (l *Ledger) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(l.Episodes())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // an error says that the reader is gone
}

// Fetch reads the ledger of a server, in Go or Python, at its base URL.
func Fetch(ctx context.Context, c *http.Client, baseURL string) (map[string]Episode, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, baseURL+Route, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch the ledger: %w", err)
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch the ledger: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch the ledger of %s: %s", baseURL, res.Status)
	}
	var episodes map[string]Episode
	if err := json.NewDecoder(res.Body).Decode(&episodes); err != nil {
		return nil, fmt.Errorf("fetch the ledger of %s: %w", baseURL, err)
	}
	return episodes, nil
}
