package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout"
)

// Raw is a policy over JSON texts.
type Raw = rollout.Policy[json.RawMessage, json.RawMessage]

// rawResult is what a player answers.
type rawResult = openenv.StepResult[json.RawMessage]

// Random chooses actions by the environment's action schema, at random: each valid,
// every alternative and every word of an enum as likely as the next. The same
// randomness makes the same actions. A server without an action schema, and a schema
// that nothing can be found for, end the run.
func Random() Raw { return new(random) }

type random struct {
	mu      sync.Mutex
	schema  string
	sampler *Sampler
}

func (*random) Name() string { return "random" }

func (p *random) Begin(_ context.Context, start rollout.Start) (rollout.Player[json.RawMessage, json.RawMessage], error) {
	sampler, err := p.samplerFor(start.Schema.Action)
	if err != nil {
		return nil, err
	}
	return &randomPlayer{sampler, start.Rand}, nil
}

// samplerFor compiles a schema once.
func (p *random) samplerFor(schema json.RawMessage) (*Sampler, error) {
	if len(schema) == 0 {
		return nil, errors.New("random policy: the server does not publish the schema of its actions")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sampler != nil && p.schema == string(schema) {
		return p.sampler, nil
	}
	sampler, err := NewSampler(schema)
	if err != nil {
		return nil, fmt.Errorf("random policy: %w", err)
	}
	p.schema, p.sampler = string(schema), sampler
	return sampler, nil
}

type randomPlayer struct {
	sampler *Sampler
	rng     *rand.Rand
}

func (p *randomPlayer) Act(context.Context, rawResult) (json.RawMessage, error) {
	return p.sampler.Sample(p.rng)
}

func (*randomPlayer) Close() error { return nil }
