package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/policy"
	"github.com/openenv-go/openenv/rollout/record"
)

// Property is something that a deterministic environment has.
type Property string

// The properties.
const (
	SameSeed   Property = "same seed"  // the same seed and actions give the same episode
	OtherSeed  Property = "other seed" // another seed gives another one
	Neighbours Property = "neighbours" // whatever other sessions do
	Restart    Property = "restart"    // and after the server was started anew
	restartHow          = "the server was not started by this check, which leaves it running"
)

// Finding is what was found out about a property.
type Finding struct {
	Property Property `json:"property"`
	OK       bool     `json:"ok"`
	Skipped  string   `json:"skipped,omitempty"` // why it was not looked at; OK is true then
	// Difference is the first one, of a property that the environment does not have.
	// For other seeds it says that there was none.
	Difference string `json:"difference,omitempty"`
}

// DeterminismConfig says how an environment is asked.
type DeterminismConfig struct {
	Seed  int64
	Steps int            // of an episode at most; 0 is 50
	Reset openenv.Object // what every reset is given besides the seed
	// Act chooses the actions; nil samples the action schema. It must depend on
	// nothing but its arguments, the number of the step and the chance that it is given.
	Act     func(step int, rng *rand.Rand, schema openenv.Schema) (json.RawMessage, error)
	Options []openenv.Option
}

// otherSeeds is how many other seeds are tried: two of them can look the same by
// chance.
const otherSeeds = 8

// Determinism asks an environment for the properties, and needs room for two sessions
// on its server. The error is of the target, and says nothing of the environment.
func Determinism(ctx context.Context, target rollout.Target, cfg DeterminismConfig) ([]Finding, error) {
	if cfg.Steps == 0 {
		cfg.Steps = 50
	}
	var findings []Finding
	err := withClient(ctx, target, cfg.Options, func(c *client) error {
		schema, err := c.Schema(ctx)
		if err != nil {
			return err
		}
		d := &determinism{client: c, cfg: cfg, schema: schema, act: cfg.Act}
		if d.act == nil {
			sampler, err := policy.NewSampler(schema.Action)
			if err != nil {
				return err
			}
			d.act = func(_ int, rng *rand.Rand, _ openenv.Schema) (json.RawMessage, error) { return sampler.Sample(rng) }
		}
		findings, err = d.all(ctx, target)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check determinism: %w", err)
	}
	return findings, nil
}

type determinism struct {
	client *client
	cfg    DeterminismConfig
	schema openenv.Schema
	act    func(int, *rand.Rand, openenv.Schema) (json.RawMessage, error)
	base   *record.Episode // what the other episodes are compared with
}

func (d *determinism) all(ctx context.Context, target rollout.Target) ([]Finding, error) {
	var err error
	if d.base, err = d.alone(ctx, d.cfg.Seed); err != nil {
		return nil, err
	}
	findings := make([]Finding, 0, 4)
	for _, ask := range []func(context.Context) (Finding, error){d.sameSeed, d.otherSeed, d.neighbours} {
		f, err := ask(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Property, err)
		}
		findings = append(findings, f)
	}
	f, err := d.restart(ctx, target.Starts())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Property, err)
	}
	return append(findings, f), nil
}

// sameSeed plays the seed again, in a new session and in one that has played another.
func (d *determinism) sameSeed(ctx context.Context) (Finding, error) {
	f := Finding{Property: SameSeed, OK: true}
	session, err := d.client.NewSession(ctx)
	if err != nil {
		return f, err
	}
	defer func() { _ = session.Close() }()
	for _, seed := range []int64{d.cfg.Seed, d.cfg.Seed + 1, d.cfg.Seed} {
		e, err := d.play(ctx, session, seed, nil)
		if err != nil {
			return f, err
		}
		if seed == d.cfg.Seed && f.OK {
			f.compare(d.base, e)
		}
	}
	return f, nil
}

// otherSeed looks for a seed that makes a difference.
func (d *determinism) otherSeed(ctx context.Context) (Finding, error) {
	f := Finding{Property: OtherSeed}
	for i := range int64(otherSeeds) {
		e, err := d.alone(ctx, d.cfg.Seed+1+i)
		if err != nil {
			return f, err
		}
		var same Finding
		if same.compare(d.base, e); same.Difference != "" {
			f.OK = true
			return f, nil
		}
	}
	f.Difference = fmt.Sprintf("none: %d other seeds gave the same episode", otherSeeds)
	return f, nil
}

// neighbours plays the seed while another session plays others, step by step in turns.
func (d *determinism) neighbours(ctx context.Context) (Finding, error) {
	f := Finding{Property: Neighbours, OK: true}
	beside, err := d.client.NewSession(ctx)
	if errors.Is(err, openenv.ErrCapacity) {
		f.Skipped = "the server has room for one session only"
		return f, nil
	}
	if err != nil {
		return f, err
	}
	defer func() { _ = beside.Close() }()
	session, err := d.client.NewSession(ctx)
	if errors.Is(err, openenv.ErrCapacity) {
		f.Skipped = "the server has room for one session only"
		return f, nil
	}
	if err != nil {
		return f, err
	}
	defer func() { _ = session.Close() }()
	rng := rand.New(rand.NewPCG(1, 1))
	over := true
	between := func(step int) error {
		if over {
			res, err := beside.Reset(ctx, d.params(d.cfg.Seed+100+int64(step))...)
			over = err != nil || res.Done
			return ignoreAnswer(err)
		}
		action, err := d.act(step, rng, d.schema)
		if err != nil {
			return err
		}
		res, err := beside.Step(ctx, action)
		over = err != nil || res.Done
		return ignoreAnswer(err)
	}
	e, err := d.play(ctx, session, d.cfg.Seed, between)
	if err != nil {
		return f, err
	}
	f.compare(d.base, e)
	return f, nil
}

// ignoreAnswer drops an error that the environment has answered with.
func ignoreAnswer(err error) error {
	if _, ok := errors.AsType[*openenv.ServerError](err); ok {
		return nil
	}
	return err
}

// restart stops the server and starts it again, if that is in our power.
func (d *determinism) restart(ctx context.Context, ours bool) (Finding, error) {
	f := Finding{Property: Restart, OK: true}
	if !ours {
		f.Skipped = restartHow
		return f, nil
	}
	if err := d.client.Close(); err != nil {
		return f, err
	}
	if err := d.client.Connect(ctx); err != nil {
		return f, err
	}
	if err := d.client.Disconnect(ctx); err != nil {
		return f, err
	}
	e, err := d.alone(ctx, d.cfg.Seed)
	if err != nil {
		return f, err
	}
	f.compare(d.base, e)
	return f, nil
}

// alone plays an episode in a session of its own.
func (d *determinism) alone(ctx context.Context, seed int64) (*record.Episode, error) {
	session, err := d.client.NewSession(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }()
	return d.play(ctx, session, seed, nil)
}

func (d *determinism) params(seed int64) []openenv.ResetParam {
	params := []openenv.ResetParam{openenv.Seed(seed)}
	for name, value := range d.cfg.Reset {
		params = append(params, openenv.Param(name, value))
	}
	return params
}

// play plays an episode; its actions are the same whatever the seed. The environment's
// answers, errors included, are all that the result has of it.
func (d *determinism) play(ctx context.Context, session *client, seed int64, between func(step int) error) (*record.Episode, error) {
	e := &record.Episode{Seed: &seed}
	rng := rand.New(rand.NewPCG(uint64(d.cfg.Seed), 0))
	res, err := session.Reset(ctx, d.params(seed)...)
	for step := 0; ; step++ {
		x, over, failed := answer(step, res, err)
		if failed != nil {
			return nil, failed
		}
		e.Exchanges = append(e.Exchanges, x)
		if over || step == d.cfg.Steps {
			return e, nil
		}
		if between != nil {
			if err := between(step); err != nil {
				return nil, err
			}
		}
		action, failed := d.act(step, rng, d.schema)
		if failed != nil {
			return nil, failed
		}
		res, err = session.Step(ctx, action)
	}
}

// answer is a reply as an exchange to be compared.
func answer(step int, res openenv.StepResult[json.RawMessage], err error) (x record.Exchange, over bool, failed error) {
	refused, isRefused := errors.AsType[*openenv.ServerError](err)
	if err != nil && !isRefused {
		return x, true, err
	}
	typ, data := "observation", any(map[string]any{"observation": res.Observation, "reward": res.Reward, "done": res.Done})
	if isRefused {
		typ, data = "error", map[string]any{"code": refused.Code, "message": refused.Message}
	}
	frame, err := json.Marshal(map[string]any{"type": typ, "data": data})
	if err != nil {
		return x, true, err
	}
	op := `{"type":"step"}`
	if step == 0 {
		op = `{"type":"reset"}`
	}
	return record.NewExchange([]byte(op), frame), res.Done || isRefused && step == 0, nil
}

// compare notes the first difference between two episodes.
func (f *Finding) compare(want, got *record.Episode) {
	for i := range min(len(want.Exchanges), len(got.Exchanges)) {
		w, g := &want.Exchanges[i], &got.Exchanges[i]
		wanted, errW := w.Reply()
		given, errG := g.Reply()
		if errW != nil || errG != nil || w.Type != g.Type {
			f.differ(fmt.Sprintf("step %d: the answer is %s, was %s", i, g.Type, w.Type))
			return
		}
		if w.Type != "observation" {
			if !sameJSON(wanted, given) {
				f.differ(fmt.Sprintf("step %d: the error is %s, was %s", i, given, wanted))
				return
			}
			continue
		}
		was, errW := w.Result()
		is, errG := g.Result()
		if errW != nil || errG != nil {
			f.differ(fmt.Sprintf("step %d: %v", i, errors.Join(errW, errG)))
			return
		}
		if found := diffResults(was, is); found != nil {
			f.differ(fmt.Sprintf("step %d: %s is %s, was %s", i, found.Path, found.Got, found.Want))
			return
		}
	}
	if len(want.Exchanges) != len(got.Exchanges) {
		f.differ(fmt.Sprintf("the episode has %d steps, had %d", len(got.Exchanges)-1, len(want.Exchanges)-1))
	}
}

func (f *Finding) differ(what string) { f.OK, f.Difference = false, what }
