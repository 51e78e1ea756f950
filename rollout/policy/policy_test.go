package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/catalog"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/policy"
	"github.com/openenv-go/openenv/rollout/record"
)

// Each value is one that the schema allows, the same chance makes the same ones, and
// where there is a choice, all of it is taken.
func TestSampler(t *testing.T) {
	for _, tt := range []struct {
		name, schema string
		all          []string // what comes up, of those with few values
	}{
		{"enum", `{"type":"object","properties":{"m":{"enum":["up","down"]}},"required":["m"]}`, []string{`{"m":"down"}`, `{"m":"up"}`}},
		{"const", `{"const":{"a":[1,null]}}`, []string{`{"a":[1,null]}`}},
		{"boolean", `{"type":"boolean"}`, []string{`false`, `true`}},
		{"types", `{"type":["null","boolean"]}`, []string{`false`, `null`, `true`}},
		{"integer bounds", `{"type":"integer","minimum":-1,"exclusiveMaximum":2}`, []string{`-1`, `0`, `1`}},
		{"multiples", `{"type":"integer","minimum":1,"maximum":12,"multipleOf":5}`, []string{`10`, `5`}},
		{"oneOf", `{"oneOf":[{"const":1},{"type":"string","const":"a"}]}`, []string{`"a"`, `1`}},
		{"exactly one", `{"oneOf":[{"type":"integer","minimum":0,"maximum":2},{"type":"integer","minimum":2,"maximum":3}]}`, []string{`0`, `1`, `3`}},
		{"not", `{"type":"integer","minimum":0,"maximum":2,"not":{"const":1}}`, []string{`0`, `2`}},
		{"optional", `{"type":"object","properties":{"a":{"const":1}}}`, []string{`{"a":1}`, `{}`}},
		{"metadata is the protocol's", `{"type":"object","properties":{"metadata":{"type":"object"}}}`, []string{`{}`}},
		{"reference", `{"$defs":{"M":{"enum":[7]}},"type":"object","properties":{"m":{"$ref":"#/$defs/M"}},"required":["m"]}`, []string{`{"m":7}`}},
		{"allOf", `{"allOf":[{"type":"object","required":["a"]},{"properties":{"a":{"const":1}}}]}`, []string{`{"a":1}`}},
		{"optional of pydantic", `{"type":"object","properties":{"n":{"anyOf":[{"type":"integer","minimum":1,"maximum":1},{"type":"null"}],"default":null}},"required":["n"]}`, []string{`{"n":1}`, `{"n":null}`}},
		{"discriminated", `{"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"n":{"type":"integer","minimum":0,"maximum":0}},"required":["t","n"]},{"type":"object","properties":{"t":{"const":"b"}},"required":["t"],"additionalProperties":false}]}`, []string{`{"n":0,"t":"a"}`, `{"t":"b"}`}},
		{"pattern", `{"type":"string","pattern":"^a[bc]$"}`, []string{`"ab"`, `"ac"`}},
		{"tuple", `{"type":"array","prefixItems":[{"const":1},{"enum":["x"]}],"items":false}`, []string{`[1,"x"]`}},
		{"unique", `{"type":"array","items":{"enum":[1,2]},"minItems":2,"maxItems":2,"uniqueItems":true}`, []string{`[1,2]`, `[2,1]`}},
		{"number", `{"type":"number","exclusiveMinimum":0,"maximum":1}`, nil},
		{"step of a number", `{"type":"number","minimum":0,"maximum":1,"multipleOf":0.25}`, nil},
		{"text", `{"type":"string","minLength":3,"maxLength":5}`, nil},
		{"long pattern", `{"type":"string","pattern":"^[A-Z]{2}-\\d{3,}(x|yz)?$"}`, nil},
		{"format", `{"type":"string","format":"date-time"}`, nil},
		{"map", `{"type":"object","additionalProperties":{"type":"integer"},"minProperties":2}`, nil},
		{"recursive", `{"$defs":{"T":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/T"},{"type":"null"}]},"kids":{"type":"array","items":{"$ref":"#/$defs/T"}}},"required":["v","next"]}},"$ref":"#/$defs/T"}`, nil},
		{"anything", `{"type":"object","properties":{"a":{}},"required":["a","b"]}`, nil},
		{"exclusive bounds as wide as an int64", `{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := policy.NewSampler([]byte(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			valid := validator(t, tt.schema)
			seen := map[string]bool{}
			one, two := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
			for range 300 {
				got, err := s.Sample(one)
				if err != nil {
					t.Fatal(err)
				}
				if again, err := s.Sample(two); err != nil || !bytes.Equal(got, again) {
					t.Fatalf("%s, and then %s, %v", got, again, err)
				}
				v, err := jsonschema.UnmarshalJSON(bytes.NewReader(got))
				if err != nil {
					t.Fatal(err)
				}
				if err := valid.Validate(v); err != nil {
					t.Fatalf("%s: %v", got, err)
				}
				seen[string(got)] = true
			}
			if tt.all == nil && len(seen) < 4 {
				t.Errorf("only %v", seen)
			}
			for _, want := range tt.all {
				if !seen[want] {
					t.Errorf("%s never came, only %v", want, seen)
				}
			}
			if tt.all != nil && len(seen) != len(tt.all) {
				t.Errorf("%v came, want %v", seen, tt.all)
			}
		})
	}
}

func validator(t *testing.T, schema string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func TestSamplerRefuses(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{"no JSON", `{`, "schema is not JSON"},
		{"no schema", `{"type":7}`, "schema"},
		{"nothing", `false`, "schema allows no value"},
		{"empty enum", `{"type":"object","properties":{"a":{"enum":[]}},"required":["a"]}`, ""},
		{"empty range", `{"type":"integer","minimum":3,"maximum":2}`, "no number is between 3 and 2"},
		{"contradiction", `{"allOf":[{"const":1},{"type":"string"}]}`, "no value was found"},
		{"a circle", `{"$ref":"#"}`, ""},
		{"a list in a list without an end", `{"type":"array","minItems":1,"items":{"$ref":"#"}}`, "too large to be made"},
		{"a list that grows at each depth", `{"type":"array","minItems":3,"items":{"$ref":"#"}}`, "too large to be made"},
		{"a billion items", `{"type":"array","minItems":1000000000}`, "minItems 1e+09"},
		{"a billion letters", `{"type":"string","minLength":1000000000}`, "minLength 1e+09"},
		{"a million items", `{"type":"array","minItems":1000000}`, "too large to be made"},
		{"an integer that is none", `{"type":"integer","minimum":1e300}`, "no multiple of 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := policy.NewSampler([]byte(tt.schema))
			if err == nil {
				_, err = s.Sample(rand.New(rand.NewPCG(1, 1)))
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Whatever a schema says, a sampler ends: with a value that the schema allows, or with
// an error.
func FuzzSampler(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"string","pattern":"^a+$"}}}`))
	f.Add([]byte(`{"$defs":{"T":{"anyOf":[{"$ref":"#/$defs/T"},{"type":"array","items":{"$ref":"#/$defs/T"}}]}},"$ref":"#/$defs/T"}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		if len(schema) > 500 {
			return
		}
		s, err := policy.NewSampler(schema)
		if err != nil {
			return
		}
		if v, err := s.Sample(rand.New(rand.NewPCG(1, 1))); err == nil && !json.Valid(v) {
			t.Errorf("%s made %q", schema, v)
		}
	})
}

func grid(t *testing.T) rollout.Target {
	t.Helper()
	entry, err := catalog.Find("gridworld")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := entry.New(envserver.WithMaxSessions(8))
	if err != nil {
		t.Fatal(err)
	}
	return rollout.Embedded(srv)
}

// play plays gridworld and returns the record.
func play(t *testing.T, p policy.Raw, cfg rollout.Config) *record.File {
	t.Helper()
	cfg.Out = filepath.Join(t.TempDir(), "run.jsonl")
	run, err := rollout.Run(t.Context(), rollout.Raw, grid(t), p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(); err != nil {
		t.Fatal(err)
	}
	file, err := record.Load(cfg.Out)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A replay takes the same actions under the same seeds, and gets the same answers.
func TestReplay(t *testing.T) {
	leak.Check(t)
	first := play(t, policy.Random(), rollout.Config{Episodes: 8, Sessions: 4, Seed: 1, Limits: record.Limits{Steps: 12}})
	p := policy.Replay(first)
	again := play(t, p, rollout.Config{Episodes: 8, Sessions: 4, Seed: 99})
	for i, want := range first.Episodes {
		got := again.Episodes[i]
		if *got.Seed != *want.Seed || got.Return != want.Return || len(got.Exchanges) != len(want.Exchanges) {
			t.Errorf("episode %d is %+v, want %+v", i, got, want)
		}
		if want.Ending == record.Truncated && (got.Ending != record.Truncated || got.Limit != record.LimitPolicy) {
			t.Errorf("episode %d: %s %s", i, got.Ending, got.Limit)
		}
	}
	if q := policy.Replay(again); q.Name() != p.Name() {
		t.Errorf("the same actions are %s and %s", p.Name(), q.Name())
	}
	if _, err := p.Begin(t.Context(), rollout.Start{Episode: 8}); err == nil || !strings.Contains(err.Error(), "no episode 8") {
		t.Errorf("an episode that is not there: %v", err)
	}
}

// pythonPolicy is the example of docs/policies.md, as a file.
func pythonPolicy(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "policies.md"))
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)
	if code == nil {
		t.Fatal("docs/policies.md has no Python example")
	}
	if lines := bytes.Count(code[1], []byte("\n")); lines > 15 {
		t.Errorf("the example has %d lines, more than 15", lines)
	}
	path := filepath.Join(t.TempDir(), "policy.py")
	if err := os.WriteFile(path, code[1], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The example of the documentation plays, and plays the same again.
func TestCommandExample(t *testing.T) {
	leak.Check(t)
	cfg := rollout.Config{Episodes: 12, Sessions: 3, Seed: 1, Limits: record.Limits{Steps: 10}}
	script := pythonPolicy(t)
	var want []*record.Episode
	for range 2 {
		c := policy.NewCommand(os.Stderr, testenv.Python(t), script)
		got := play(t, c, cfg).Episodes
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for i, e := range want {
			if got[i].Return != e.Return || got[i].Steps != e.Steps || !e.Ending.Counts() {
				t.Errorf("episode %d is %+v, was %+v", i, got[i], e)
			}
		}
		want = got
	}
}

func TestCommandFailures(t *testing.T) {
	sh := func(script string) *policy.Command { return policy.NewCommand(nil, "sh", "-c", script) }
	for _, tt := range []struct {
		name    string
		command *policy.Command
		want    string
	}{
		{"not there", policy.NewCommand(nil, "no-such-program-here"), "no-such-program-here"},
		{"ends", sh("read line; exit 3"), "ended without an answer: exit status 3"},
		{"no JSON", sh("read line; echo hello"), `no JSON object`},
		{"no action", sh("read line; echo '{}'"), "has no action"},
		{"an error", sh(`read line; echo '{"error":"no idea"}'`), "command policy says: no idea"},
		{"stops", sh(`read line; echo '{"stop":true}'`), rollout.ErrStop.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			defer tt.command.Close()
			p, err := tt.command.Begin(t.Context(), rollout.Start{Rand: rand.New(rand.NewPCG(1, 1))})
			if err == nil {
				_, err = p.Act(t.Context(), openenv.StepResult[json.RawMessage]{Observation: json.RawMessage(`{}`)})
				if failed := p.Close(); failed != nil {
					t.Error(failed)
				}
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A process that thinks for ever is ended with its episode.
func TestCommandIsCancelled(t *testing.T) {
	leak.Check(t)
	c := policy.NewCommand(nil, "sh", "-c", "read line; exec sleep 600")
	defer c.Close()
	p, err := c.Begin(t.Context(), rollout.Start{Rand: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Act(ctx, openenv.StepResult[json.RawMessage]{Observation: json.RawMessage(`{}`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
