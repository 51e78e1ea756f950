package openenv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// Whatever a server sends in place of an observation, the call returns a typed error
// that says what was received, and the session either goes on or is reported lost.
func TestUnexpectedReplies(t *testing.T) {
	const (
		goesOn = true
		lost   = false
	)
	decode := func(t *testing.T, err error) { wantAs[*openenv.DecodeError](t, "Step", err) }
	for _, tt := range []struct {
		name   string
		send   func(p *openenvtest.Peer)
		check  func(t *testing.T, err error) // nil: a *DecodeError
		says   string
		goesOn bool
	}{
		{"not JSON", text(`hello`), nil, "hello", lost},
		{"empty", text(``), nil, "not JSON", lost},
		{"truncated JSON", text(`{"type":"observation","data":{"obs`), nil, `data`, goesOn},
		{"truncated before the type", text(`{"ty`), nil, `ty`, lost},
		{"two values", text(`{"data":1,"type":"observation"} {}`), nil, "observation", lost},
		{"bare NaN", text(`{"type":"observation","data":{"observation":{"x":NaN},"reward":null,"done":false}}`), nil, "NaN", goesOn},
		{"array", text(`[{"type":"observation"}]`), nil, "array", lost},
		{"null", text(`null`), nil, "null", lost},
		{"no type", text(`{"data":{"observation":{}}}`), nil, "no type", lost},
		{"type of a wrong type", text(`{"type":7}`), nil, "7", lost},
		{"unknown type", text(`{"type":"surprise","data":{}}`), nil, "surprise", lost},
		{"state in place of an observation", text(`{"type":"state","data":{}}`), nil, "state frame in reply to step", lost},
		{"binary", func(p *openenvtest.Peer) { p.SendBinary([]byte(`{"type":"observation"}`)) }, nil, "binary", lost},
		{"duplicate type", text(`{"type":"observation","type":"state","data":{"observation":{}}}`), nil, "type", goesOn},
		{"duplicate key", text(`{"type":"observation","data":{"observation":{"x":1,"x":2},"reward":null,"done":false}}`), nil, "duplicate", goesOn},
		{"invalid UTF-8", text("{\"type\":\"observation\",\"data\":{\"observation\":{\"x\":\"\xff\"},\"reward\":null,\"done\":false}}"), nil, "UTF-8", goesOn},
		{"no data", text(`{"type":"observation"}`), nil, "no data", goesOn},
		{"null data", text(`{"type":"observation","data":null}`), nil, "data", goesOn},
		{"no observation", text(`{"type":"observation","data":{"reward":1,"done":false}}`), nil, "observation", goesOn},
		{"null observation", text(`{"type":"observation","data":{"observation":null,"reward":1,"done":false}}`), nil, "observation", goesOn},
		{"observation of a wrong type", text(`{"type":"observation","data":{"observation":[1],"reward":1,"done":false}}`), nil, "array", goesOn},
		{"reward of a wrong type", text(`{"type":"observation","data":{"observation":{},"reward":"much","done":false}}`), nil, "reward", goesOn},
		{"done of a wrong type", text(`{"type":"observation","data":{"observation":{},"reward":1,"done":"yes"}}`), nil, "done", goesOn},
		{"error frame", text(`{"type":"error","data":{"message":"boom","code":"EXECUTION_ERROR"}}`), isServerError("EXECUTION_ERROR"), "boom", goesOn},
		{"error frame of an unknown code", text(`{"type":"error","data":{"message":"boom","code":"TEAPOT"}}`), isServerError("TEAPOT"), "boom", goesOn},
		{"error frame without data", text(`{"type":"error"}`), isServerError(""), "server error", goesOn},
		{"error frame whose data is text", text(`{"type":"error","data":"boom"}`), isServerError(""), "boom", goesOn},
		{"error frame that is truncated", text(`{"type":"error","data":{"mess`), nil, "mess", goesOn},
		{"session error", text(`{"type":"error","data":{"message":"crashed","code":"SESSION_ERROR"}}`), isServerError("SESSION_ERROR"), "crashed", lost},
		{"close", func(p *openenvtest.Peer) { p.Close(1001, "bye") }, isLost, "1001", lost},
		{"abort", func(p *openenvtest.Peer) { p.Abort() }, isLost, "connection lost", lost},
		{"1009: the action was too big", func(p *openenvtest.Peer) { p.Close(1009, "too big") }, func(t *testing.T, err error) {
			if big := as[*openenv.MessageTooBigError](t, "Step", err); big.Side != openenv.SideRemote {
				t.Errorf("%+v", big)
			}
		}, "server's limit", lost},
		{"oversize", func(p *openenvtest.Peer) { p.Oversize(5000) }, func(t *testing.T, err error) {
			if big := as[*openenv.MessageTooBigError](t, "Step", err); big.Side != openenv.SideLocal || big.Limit != 4096 {
				t.Errorf("%+v", big)
			}
		}, "4096", lost},
		{"silence", func(p *openenvtest.Peer) { p.Silence() }, func(t *testing.T, err error) {
			wantIs(t, "Step", err, openenv.ErrMessageTimeout)
		}, "within", lost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, script := scripted(t, func(p *openenvtest.Peer) {
					if p.Number() == 1 {
						p.Expect("reset")
						p.Observation(`{}`)
						p.Expect("step")
						tt.send(p)
					}
					answer(p)
				}, openenv.WithMaxMessageSize(4096))
				mustReset(t, env)
				_, err := env.Step(t.Context(), do(1))
				if err == nil {
					t.Fatal("no error")
				}
				if tt.check == nil {
					tt.check = decode
				}
				tt.check(t, err)
				if !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v does not say %q", err, tt.says)
				}
				res, err := env.Step(t.Context(), do(2))
				if tt.goesOn {
					if err != nil || res.Observation["n"] != 2.0 || script.Accepted() != 1 {
						t.Errorf("next step: %v, %v", res, err)
					}
					return
				}
				isLost(t, err)
				mustReset(t, env)
				if res, err := env.Step(t.Context(), do(3)); err != nil || res.Observation["n"] != 3.0 {
					t.Errorf("a new episode: %v, %v", res, err)
				}
			})
		})
	}
}

func text(frame string) func(*openenvtest.Peer) {
	return func(p *openenvtest.Peer) { p.Send(frame) }
}

func isLost(t *testing.T, err error) {
	t.Helper()
	wantAs[*openenv.SessionLostError](t, "call", err)
}

// A frame that answers nothing: while the client thinks, and one too many.
func TestUnsolicitedFrames(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frames int // in reply to the step
		idle   bool
	}{{"two frames for one request", 2, false}, {"while idle", 1, true}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, _ := scripted(t, func(p *openenvtest.Peer) {
					if p.Number() > 1 {
						answer(p)
						return
					}
					p.Expect("step")
					for range tt.frames {
						p.Observation(`{"n":1}`)
					}
					if tt.idle {
						time.Sleep(time.Second)
						p.Observation(`{"n":"unasked"}`)
					}
					answer(p)
				})
				res, err := env.Step(t.Context(), do(1))
				if err != nil || res.Observation["n"] != 1.0 {
					t.Fatalf("%v, %v", res, err)
				}
				time.Sleep(2 * time.Second)
				_, err = env.Step(t.Context(), do(2))
				isLost(t, err)
				wantAs[*openenv.DecodeError](t, "its cause", err)
				if !strings.Contains(err.Error(), "answers no request") {
					t.Error(err)
				}
			})
		})
	}
}

// In a session in which nothing was done an unasked frame costs only the socket.
func TestUnsolicitedFrameOnACleanSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			if p.Number() == 1 {
				reply(p)
				p.State(`{}`)
			}
			answer(p)
		})
		if err := env.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if res, err := env.Step(t.Context(), do(1)); err != nil || res.Observation["n"] != 1.0 {
			t.Errorf("%v, %v", res, err)
		}
	})
}

// What servers send in good faith is understood.
func TestAcceptableReplies(t *testing.T) {
	one := 1.0
	for _, tt := range []struct {
		name   string
		frame  string
		reward *float64
		done   bool
		meta   string
	}{
		{"older three-key reply", `{"type":"observation","data":{"observation":{"x":1},"reward":1,"done":true}}`, &one, true, "map[]"},
		{"boolean reward", `{"type":"observation","data":{"observation":{"x":1},"reward":true,"done":false}}`, &one, false, "map[]"},
		{"null reward", `{"type":"observation","data":{"observation":{"x":1},"reward":null,"done":false}}`, nil, false, "map[]"},
		// Report: observation metadata never reaches the client.
		{"metadata", `{"type":"observation","data":{"observation":{"x":1},"reward":null,"done":false,"metadata":{"a":1}}}`, nil, false, "map[a:1]"},
		{"unknown keys, other order", `{"new":1,"data":{"done":true,"observation":{"x":1},"later":{}},"type":"observation"}`, nil, true, "map[]"},
		{"spaces", " {\n \"type\" : \"observation\" , \"data\" : { \"observation\" : { \"x\" : 1 } } } ", nil, false, "map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, _ := scripted(t, func(p *openenvtest.Peer) {
					p.Expect("reset")
					p.Send(tt.frame)
					answer(p)
				})
				res, err := env.Reset(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if (res.Reward == nil) != (tt.reward == nil) || res.Reward != nil && *res.Reward != *tt.reward || res.Done != tt.done ||
					fmt.Sprint(res.Metadata) != tt.meta || res.Observation["x"] != 1.0 {
					t.Errorf("%+v", res)
				}
			})
		})
	}
}

// Report: the environment's own error is hidden by a decoding error. Code, message
// and the other keys are kept.
func TestServerErrorDetails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			p.Expect("step")
			p.Send(`{"type":"error","data":{"message":"Invalid action","code":"VALIDATION_ERROR","errors":[` +
				`{"type":"missing","loc":["message"],"msg":"Field required","input":{"x":1}},{"type":"extra_forbidden","loc":["x",0],"msg":"no"}]}}`)
			answer(p)
		})
		_, err := env.Step(t.Context(), do(1))
		e := as[*openenv.ServerError](t, "Step", err)
		fields := e.Fields()
		if e.Message != "Invalid action" || len(fields) != 2 || fields[0].String() != "message: Field required" || fields[1].String() != "x.0: no" {
			t.Errorf("%+v", e)
		}
		if want := "server error VALIDATION_ERROR: Invalid action: message: Field required (and 1 more)"; !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v", err)
		}
		if errors.Is(err, openenv.ErrCapacity) {
			t.Error("matches ErrCapacity")
		}
	})
}

// FuzzReply sends anything at all as the reply to a step.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		`{"type":"observation","data":{"observation":{"x":1},"reward":1,"done":true}}`,
		`{"type":"state","data":{}}`, `{"type":"error","data":{"message":"m","code":"CAPACITY_REACHED"}}`,
		`{"type":"error"}`, `[]`, ``, `{`, "\xff", `{"type":"observation","data":{"observation":NaN}}`, `{"type":"mcp","data":null}`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, frame []byte, binary bool) {
		bubble(t, func(t *testing.T) {
			env, _ := scripted(t, func(p *openenvtest.Peer) {
				if p.Number() == 1 {
					p.Expect("step")
					if binary {
						p.SendBinary(frame)
					} else {
						p.Send(string(frame))
					}
				}
				answer(p)
			})
			res, err := env.Step(t.Context(), do(1))
			if err == nil && res.Observation == nil {
				t.Error("a result without an observation")
			}
			if err == nil && binary {
				t.Error("a binary message gave a result")
			}
			// It goes on, or it is lost; it does not hang and does not mix up replies.
			if res, err := env.Step(t.Context(), do(2)); err == nil && res.Observation["n"] != 2.0 {
				t.Errorf("the next step got %v", res)
			} else if err != nil {
				if _, err := env.Reset(t.Context()); err != nil {
					t.Errorf("Reset: %v", err)
				}
			}
		})
	})
}
