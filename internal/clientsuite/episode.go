package clientsuite

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/openenv-go/openenv"
)

var episodeCases = []testCase{
	{name: "typed and raw clients get the same", run: typedAndRaw},
	{name: "reset parameters", run: resetParams},
	{name: "rewards", run: rewards},
	{name: "a reward that is not a number", run: notANumber},
	{name: "the end of an episode", run: done},
	{name: "metadata beside the reward", run: metadata},
	{name: "numbers of raw maps", run: numbers},
	{name: "interceptors see raw frames", run: intercepted},
}

func typedAndRaw(p *play) {
	typed, raw := p.client(), p.raw()
	compare := func(what string, t openenv.StepResult[Observation], terr error, r openenv.StepResult[openenv.Object], rerr error) {
		p.Helper()
		if terr != nil || rerr != nil {
			p.Fatalf("%s: typed %v, raw %v", what, terr, rerr)
		}
		want := openenv.Object{
			"echoed": t.Observation.Echoed, "length": float64(t.Observation.Length), "metadata": t.Observation.Metadata,
		}
		if !reflect.DeepEqual(r.Observation, want) {
			p.Errorf("%s: raw observation %v, typed %v", what, r.Observation, want)
		}
		if !reflect.DeepEqual(r.Reward, t.Reward) || r.Done != t.Done || !reflect.DeepEqual(r.Metadata, t.Metadata) {
			p.Errorf("%s: raw %+v, typed %+v", what, r, t)
		}
	}
	tres, terr := typed.Reset(p.Context(), openenv.Seed(3), openenv.EpisodeID("same"))
	rres, rerr := raw.Reset(p.Context(), openenv.Seed(3), openenv.EpisodeID("same"))
	compare("reset", tres, terr, rres, rerr)
	for _, message := range []string{"hi", "", "héllo 😀", "meta", "done", "big:1000", "line\nbreak \"quoted\" \\ \u2028"} {
		tres, terr = typed.Step(p.Context(), Action{message})
		rres, rerr = raw.Step(p.Context(), openenv.Object{"message": message})
		compare(message, tres, terr, rres, rerr)
	}
	state := p.steps(typed, 7)
	got, err := raw.State(p.Context())
	if err != nil {
		p.Fatalf("State: %v", err)
	}
	if want := (openenv.Object{"episode_id": state, "step_count": 7.0}); !reflect.DeepEqual(got, want) {
		p.Errorf("raw state %v, want %v", got, want)
	}
	_, terr = typed.Step(p.Context(), Action{"boom"})
	_, rerr = raw.Step(p.Context(), openenv.Object{"message": "boom"})
	t, r := p.serverError("typed", terr, openenv.CodeExecution), p.serverError("raw", rerr, openenv.CodeExecution)
	if !reflect.DeepEqual(t, r) {
		p.Errorf("typed error %+v, raw %+v", t, r)
	}
}

// Reports: parameters of reset reach the server unchanged.
func resetParams(p *play) {
	var rec recorder
	c := p.client(rec.option())
	p.reset(c, openenv.Seed(7), openenv.EpisodeID("e-1"), openenv.Param("level", openenv.Object{"hard": true}))
	want := openenv.Object{"seed": 7.0, "episode_id": "e-1", "level": openenv.Object{"hard": true}}
	if got := rec.all()[0].request; got.Type != "reset" || !reflect.DeepEqual(got.Data, want) {
		p.Errorf("sent %+v, want %v", got, want)
	}
	p.step(c, "hi")
	if got := p.steps(c, 1); got != "e-1" {
		p.Errorf("episode %q, want e-1", got)
	}
	p.reset(c)
	if got := p.steps(c, 0); got == "e-1" {
		p.Error("a reset without a name kept the episode's name")
	}
	sent := len(rec.all())
	if _, err := c.Reset(p.Context(), openenv.Seed(1), openenv.Seed(2)); err == nil || len(rec.all()) != sent {
		p.Errorf("a parameter given twice: %v, %d frames sent", err, len(rec.all())-sent)
	}
}

func rewards(p *play) {
	c := p.client()
	p.reset(c)
	for _, tt := range []struct {
		message string
		want    float64
	}{
		{"hi", 0.2},
		{"", 0}, // no reward and a reward of nothing are two things
		{"héllo 😀", 0.7000000000000001},
	} {
		if res := p.step(c, tt.message); res.Reward == nil || *res.Reward != tt.want {
			p.Errorf("reward of %q is %v, want %v", tt.message, show(res.Reward), tt.want)
		}
	}
	p.steps(c, 3)
}

// Reports: not a number is not JSON. What a server makes of it is its documented
// policy; the session survives in any case.
func notANumber(p *play) {
	c := p.client()
	p.reset(c)
	res, err := c.Step(p.Context(), Action{"nan"})
	if p.target.NaNIsNull {
		if err != nil || res.Reward != nil {
			p.Errorf("Step = %v, %v, want no reward", show(res.Reward), err)
		}
	} else if se := p.serverError("Step", err, openenv.CodeExecution); !strings.Contains(se.Message, "reward") {
		p.Errorf("error %q does not name the field", se.Message)
	}
	p.step(c, "the session lives on")
	p.steps(c, 2)
}

func show(f *float64) any {
	if f == nil {
		return nil
	}
	return *f
}

func done(p *play) {
	c := p.client()
	p.reset(c)
	if res := p.step(c, "hi"); res.Done {
		p.Error("done before the end")
	}
	if res := p.step(c, "done"); !res.Done {
		p.Error("not done at the end")
	}
	p.reset(c)
	if res := p.step(c, "hi"); res.Done {
		p.Error("done in the next episode")
	}
}

// Reports: an observation's metadata reaches the client, beside reward and done and
// inside the observation.
func metadata(p *play) {
	c := p.client()
	if res := p.reset(c); res.Metadata != nil {
		p.Errorf("metadata of a reset is %v", res.Metadata)
	}
	want := openenv.Object{"a": 1.0}
	if res := p.step(c, "meta"); !reflect.DeepEqual(res.Metadata, want) || !reflect.DeepEqual(res.Observation.Metadata, want) {
		p.Errorf("metadata %v, in the observation %v, want %v", res.Metadata, res.Observation.Metadata, want)
	}
	if res := p.step(c, "hi"); res.Metadata != nil || len(res.Observation.Metadata) != 0 {
		p.Errorf("metadata %v, in the observation %v, want none", res.Metadata, res.Observation.Metadata)
	}
}

func numbers(p *play) {
	for _, tt := range []struct {
		name string
		opts []openenv.Option
		want any
	}{
		{"by default", nil, 2.0},
		{"WithNumbers", []openenv.Option{openenv.WithNumbers()}, json.Number("2")},
	} {
		c := p.raw(tt.opts...)
		if _, err := c.Reset(p.Context()); err != nil {
			p.Fatalf("%s: Reset: %v", tt.name, err)
		}
		var res openenv.StepResult[openenv.Object]
		for range 2 {
			var err error
			if res, err = c.Step(p.Context(), openenv.Object{"message": "hi"}); err != nil {
				p.Fatalf("%s: Step: %v", tt.name, err)
			}
		}
		state, err := c.State(p.Context())
		if err != nil {
			p.Fatalf("%s: State: %v", tt.name, err)
		}
		if res.Observation["length"] != tt.want || state["step_count"] != tt.want {
			p.Errorf("%s: length %#v, step_count %#v, want %#v", tt.name, res.Observation["length"], state["step_count"], tt.want)
		}
		if res.Reward == nil || *res.Reward != 0.2 {
			p.Errorf("%s: reward %v, want 0.2", tt.name, show(res.Reward))
		}
	}
}

func intercepted(p *play) {
	var rec recorder
	c := p.client(rec.option())
	p.reset(c, openenv.Seed(1))
	p.step(c, "hi")
	p.steps(c, 1)
	_, err := c.Step(p.Context(), Action{"boom"})
	p.failed("Step", err)

	calls := rec.all()
	want := []struct{ op, request, reply string }{
		{"reset", "reset", "observation"}, {"step", "step", "observation"}, {"state", "state", "state"}, {"step", "step", "error"},
	}
	if len(calls) != len(want) {
		p.Fatalf("%d calls seen, want %d", len(calls), len(want))
	}
	for i, call := range calls {
		if call.op != want[i].op || call.request.Type != want[i].request || call.reply.Type != want[i].reply {
			p.Errorf("call %d: %s sent %s and received %s, want %v", i, call.op, call.request.Type, call.reply.Type, want[i])
		}
		if call.sent.IsZero() || call.received.Before(call.sent) {
			p.Errorf("call %d: sent %v, received %v", i, call.sent, call.received)
		}
	}
	if got := calls[1].request.Data; !reflect.DeepEqual(got, openenv.Object{"message": "hi"}) {
		p.Errorf("the step's data is %v: the action itself, no wrapper", got)
	}
	p.failed("as the interceptor saw it", calls[3].err)
	p.step(c, "the session lives on")
}
