package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/record"
)

// Replay takes the actions of a record again, with the record's seeds: episode n those
// of the record's episode n. An episode ends, truncated by its policy, where the
// record does.
func Replay(file *record.File) Raw {
	p := &replay{actions: map[int][]json.RawMessage{}, seeds: map[int]int64{}}
	hash := sha256.New()
	for _, e := range file.Episodes {
		hash.Write(fmt.Appendln(nil, e.Index, len(e.Exchanges)))
		actions := []json.RawMessage{}
		for i := range e.Exchanges {
			if x := &e.Exchanges[i]; x.Op == "step" {
				actions = append(actions, x.Data)
				hash.Write(record.Canonical(x.Data))
			}
		}
		p.actions[e.Index] = actions
		if e.Seed != nil {
			p.seeds[e.Index] = *e.Seed
			hash.Write(fmt.Appendln(nil, *e.Seed))
		}
	}
	p.name = "replay:" + hex.EncodeToString(hash.Sum(nil)[:8])
	return p
}

type replay struct {
	name    string
	actions map[int][]json.RawMessage
	seeds   map[int]int64
}

// Name has a hash of the actions.
func (p *replay) Name() string { return p.name }

func (p *replay) EpisodeSeed(episode int) (int64, bool) {
	seed, ok := p.seeds[episode]
	return seed, ok
}

func (p *replay) Begin(_ context.Context, start rollout.Start) (rollout.Player[json.RawMessage, json.RawMessage], error) {
	actions, ok := p.actions[start.Episode]
	if !ok {
		return nil, fmt.Errorf("replay policy: the record has no episode %d", start.Episode)
	}
	return &replayPlayer{actions}, nil
}

type replayPlayer struct{ left []json.RawMessage }

func (p *replayPlayer) Act(context.Context, rawResult) (json.RawMessage, error) {
	if len(p.left) == 0 {
		return nil, rollout.ErrStop
	}
	action := p.left[0]
	p.left = p.left[1:]
	return action, nil
}

func (*replayPlayer) Close() error { return nil }
