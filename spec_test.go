package openenv_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

type move struct {
	Column int `json:"column"`
}

type board struct {
	Cells []int `json:"cells"`
	Score *int  `json:"score,omitempty"`
}

// A typed client is the same code as a raw-map one: JSON tags are the protocol, and
// unknown fields are ignored.
func TestTypedClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		srv := openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
			f := p.Expect("step")
			seen.add(f)
			p.Send(`{"type":"observation","data":{"observation":{"cells":[1,2],"reward":9,"new":true},"reward":-1,"done":true}}`)
			p.Expect("state")
			p.State(`{"episode_id":"e","step_count":4,"extra":1}`)
			answer(p)
		}))
		env, err := openenv.New(openenv.Spec[move, board, openenv.State]{Name: "connect four"}, srv.URL(), srv.Option())
		if err != nil {
			t.Fatal(err)
		}
		defer env.Close()
		res, err := env.Async().Step(move{Column: 3}).Await(t.Context())
		if err != nil || fmt.Sprint(res.Observation.Cells) != "[1 2]" || res.Observation.Score != nil || *res.Reward != -1 || !res.Done {
			t.Errorf("%+v, %v", res, err)
		}
		state, err := env.State(t.Context())
		if err != nil || state != (openenv.State{EpisodeID: "e", StepCount: 4}) {
			t.Errorf("%+v, %v", state, err)
		}
		seen.want(t, `step{"column":3}`)
	})
}

// The functions of a Spec are a client's view of a foreign server; what they fail
// with is kept.
func TestSpecFunctions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		srv := openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
			for {
				f, ok := p.Next()
				if !ok || f.Type == "close" {
					return
				}
				seen.add(f)
				respond(p, f)
			}
		}))
		errOdd := errors.New("odd")
		spec := openenv.Spec[int, string, string]{
			EncodeAction: func(n int) (any, error) {
				if n%2 != 0 {
					return nil, errOdd
				}
				return map[string]int{"twice": 2 * n}, nil
			},
			DecodeResult: func(raw json.RawMessage) (openenv.StepResult[string], error) {
				var data struct {
					Observation map[string]any `json:"observation"`
				}
				if err := json.Unmarshal(raw, &data); err != nil {
					return openenv.StepResult[string]{}, err
				}
				if data.Observation["twice"] == 8.0 {
					return openenv.StepResult[string]{}, errOdd
				}
				return openenv.StepResult[string]{Observation: fmt.Sprint(data.Observation)}, nil
			},
			DecodeState: func(raw json.RawMessage) (string, error) { return string(raw), nil },
		}
		env, err := openenv.New(spec, srv.URL(), srv.Option())
		if err != nil {
			t.Fatal(err)
		}
		defer env.Close()
		if res, err := env.Step(t.Context(), 2); err != nil || res.Observation != "map[twice:4]" {
			t.Errorf("%+v, %v", res, err)
		}
		if state, err := env.State(t.Context()); err != nil || state != `{"episode_id":"e","step_count":0}` {
			t.Errorf("%q, %v", state, err)
		}
		_, err = env.Step(t.Context(), 3)
		wantIs(t, "EncodeAction", err, errOdd)
		_, err = env.Async().Step(3).Get(t.Context())
		wantIs(t, "EncodeAction of a future", err, errOdd)
		_, err = env.Step(t.Context(), 4)
		wantIs(t, "DecodeResult", err, errOdd)
		wantAs[*openenv.DecodeError](t, "DecodeResult", err)
		if res, err := env.Step(t.Context(), 6); err != nil || res.Observation != "map[twice:12]" {
			t.Errorf("the session goes on: %+v, %v", res, err)
		}
		seen.want(t, `step{"twice":4}`, "state", `step{"twice":8}`, `step{"twice":12}`)
	})
}
