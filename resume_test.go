package openenv_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// keeper is a scripted server that makes sessions over HTTP, too.
type keeper struct {
	*openenvtest.Scripted

	mu        sync.Mutex
	made      int
	calls     []string
	instances []string // the Openenv-Instance of each answer in turn; nil: none
	answered  int
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	if len(k.instances) > 0 {
		w.Header().Set("Openenv-Instance", k.instances[min(k.answered, len(k.instances)-1)])
		k.answered++
	}
	if r.URL.Path != "/mcp" {
		k.mu.Unlock()
		k.Scripted.ServeHTTP(w, r)
		return
	}
	defer k.mu.Unlock()
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	k.calls = append(k.calls, call.Method)
	result := `{"closed":true}`
	if call.Method == "openenv/session/create" {
		k.made++
		result = `{"session_id":"s` + strconv.Itoa(k.made) + `"}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(call.ID) + `,"result":` + result + `}`))
}

// kept makes a client of a keeper whose sockets play scripts; numbered says whether it
// agrees to number requests.
func kept(t *testing.T, numbered bool, play func(*openenvtest.Peer), opts ...openenv.Option) (*openenv.GenericClient, *keeper) {
	t.Helper()
	k := &keeper{Scripted: openenvtest.Script(t, play)}
	if numbered {
		k.Subprotocols("openenv.session.v1")
	}
	srv := openenvtest.Serve(t, k)
	return generic(t, srv.URL(), append([]openenv.Option{srv.Option()}, opts...)...), k
}

func resume() openenv.Option { return openenv.WithResume(openenv.Resume{}) }

const (
	observation = `"type":"observation","data":{"observation":{},"reward":null,"done":false}}`
	atStep3     = `"type":"state","data":{"episode_id":"e","step_count":3}}`
)

// numberedAnswer serves a socket with numbers; answer gives the rest of the reply to
// frames that are to be answered in another way.
func numberedAnswer(answer func(openenvtest.Frame) string) func(*openenvtest.Peer) {
	return func(p *openenvtest.Peer) {
		for {
			f, ok := p.Next()
			if !ok || f.Type == "close" {
				return
			}
			reply := answer(f)
			switch {
			case reply != "":
			case f.Type == "state":
				reply = atStep3
			case f.Type == "cancel":
				continue
			default:
				reply = observation
			}
			p.Sendf(`{"id":%d,%s`, f.ID, reply)
		}
	}
}

func TestResumeOptions(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []openenv.Option
		want string
	}{
		{"negative attempts", []openenv.Option{openenv.WithResume(openenv.Resume{Attempts: -1})}, "WithResume: negative value"},
		{"negative backoff", []openenv.Option{openenv.WithResume(openenv.Resume{Backoff: -1})}, "WithResume: negative value"},
		{"negative wait", []openenv.Option{openenv.WithResume(openenv.Resume{MaxWait: -1})}, "WithResume: negative value"},
		{"trust alone", []openenv.Option{openenv.WithResumeTrust()}, "WithResumeTrust: it has no meaning without WithResume"},
		{"trust first", []openenv.Option{openenv.WithResumeTrust(), resume()}, ""},
	} {
		_, err := openenv.New(openenv.Generic, "http://host", tt.opts...)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// The subprotocol is offered by clients that resume, and by no others: theirs are the
// plain frames of the protocol.
func TestSubprotocolIsOfferedByWithResumeOnly(t *testing.T) {
	for _, tt := range []struct {
		name          string
		opts          []openenv.Option
		offer, id, at string
	}{
		{"none", nil, "", "", `{"type":"reset","data":{}}`},
		{"WithManagedSession", []openenv.Option{openenv.WithManagedSession()}, "", "s1", `{"type":"reset","data":{}}`},
		{"WithResume", []openenv.Option{resume()}, "openenv.session.v1", "s1", `{"id":1,"type":"reset","data":{}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, _ := kept(t, true, func(p *openenvtest.Peer) {
					if got := p.Request().Header.Get("Sec-WebSocket-Protocol"); got != tt.offer {
						t.Errorf("client offers %q, want %q", got, tt.offer)
					}
					if f := p.Expect("reset"); f.Text != tt.at {
						t.Errorf("client sent %s, want %s", f.Text, tt.at)
					}
					if tt.offer == "" {
						p.Observation(`{}`)
					} else {
						p.Sendf(`{"id":1,%s`, observation)
					}
					p.Silence()
				}, tt.opts...)
				mustReset(t, env)
				if got := env.SessionID(); got != tt.id {
					t.Errorf("SessionID = %q, want %q", got, tt.id)
				}
			})
		})
	}
}

// What a caller sees of a reply that is gone: that its request was applied, why the
// reply is gone, and where the episode is.
func TestReplyLostHasTheState(t *testing.T) {
	want := &openenv.State{EpisodeID: "e", StepCount: 3}
	for _, tt := range []struct {
		name  string
		reply string
		cause func(error) bool
	}{
		{"not kept by the server", `"type":"error","data":{"message":"applied, and its reply is not kept any more","code":"REPLY_LOST"}}`, func(err error) bool {
			failed, ok := errors.AsType[*openenv.ServerError](err)
			return ok && failed.Code == "REPLY_LOST"
		}},
		{"larger than the client reads", `"type":"observation","data":{"observation":{"big":"` + strings.Repeat("x", 4096) + `"}}}`, func(err error) bool {
			big, ok := errors.AsType[*openenv.MessageTooBigError](err)
			return ok && big.Side == openenv.SideLocal && big.Limit == 1024
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, k := kept(t, true, numberedAnswer(func(f openenvtest.Frame) string {
					if f.ID == 2 {
						return tt.reply
					}
					return ""
				}), resume(), openenv.WithMaxMessageSize(1024))
				mustReset(t, env)
				_, err := env.Step(t.Context(), do(1))
				lost := as[*openenv.ReplyLostError](t, "Step", err)
				if lost.State == nil || *lost.State != *want || !tt.cause(err) {
					t.Errorf("Step: %v, state %+v", err, lost.State)
				}
				if _, err := env.Step(t.Context(), do(2)); err != nil || k.made != 1 {
					t.Errorf("Step: %v, %d sessions made", err, k.made)
				}
			})
		})
	}
}

// A server whose clock is the quicker one ends a call by its deadline; the caller sees
// its own deadline.
func TestDeadlineThatTheServerKeeps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := kept(t, true, numberedAnswer(func(f openenvtest.Frame) string {
			if f.MS > 0 {
				return `"type":"error","data":{"message":"deadline of the call exceeded","code":"CANCELLED"}}`
			}
			return ""
		}), resume())
		mustReset(t, env)
		_, err := env.Step(within(t, time.Second), do(1))
		wantIs(t, "Step", err, context.DeadlineExceeded)
		if _, err := env.Step(t.Context(), do(2)); err != nil {
			t.Errorf("Step: %v", err)
		}
	})
}

// A plain server that cannot tell whether a step was applied: the caller gets what it
// said before and after.
func TestStepInDoubtHasBothStates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		count := 3
		env, _ := kept(t, false, func(p *openenvtest.Peer) {
			for {
				f, ok := p.Next()
				switch {
				case !ok || f.Type == "close":
					return
				case f.Type == "state":
					p.Sendf(`{"type":"state","data":{"episode_id":"e","step_count":%d}}`, count)
				case f.Type == "step" && p.Number() == 1:
					count += 2
					p.Abort()
					return
				default:
					p.Observation(`{}`)
				}
			}
		}, resume())
		mustReset(t, env)
		_, err := env.Step(t.Context(), do(1))
		doubt := as[*openenv.StepInDoubtError](t, "Step", err)
		if doubt.Before == nil || doubt.Before.StepCount != 3 || doubt.After == nil || doubt.After.StepCount != 5 {
			t.Errorf("Step: before %+v, after %+v", doubt.Before, doubt.After)
		}
		if !strings.Contains(err.Error(), "(steps before 3, after 5)") {
			t.Errorf("Step: %v", err)
		}
		if _, err := env.Step(t.Context(), do(2)); err != nil {
			t.Errorf("the session goes on: %v", err)
		}
	})
}

// The end of a session that the server does not know says what may have happened.
func TestUnknownSessionNamesItsCauses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, k := kept(t, false, func(p *openenvtest.Peer) {
			if p.Number() > 1 && strings.HasSuffix(p.Request().URL.RawQuery, "=s1") {
				p.Error("SESSION_ERROR", "Unknown session_id: s1")
				return
			}
			for n := 0; reply(p); n++ {
				if p.Number() == 1 && n == 2 {
					p.Abort()
					return
				}
			}
		}, resume())
		mustReset(t, env)
		for range 2 {
			_, err := env.Step(t.Context(), do(1))
			wantAs[*openenv.SessionLostError](t, "Step", err)
			wantIs(t, "Step", err, openenv.ErrUnknownSession)
			if !strings.Contains(err.Error(), "another server") {
				t.Errorf("Step: %v does not say what may have happened", err)
			}
		}
		mustReset(t, env)
		if k.made != 2 {
			t.Errorf("%d sessions made, want another one for Reset alone", k.made)
		}
	})
}

// Sessions whose first socket reaches another server than the one that made them. The
// identities are those of the answers in turn.
func TestWrongReplica(t *testing.T) {
	for _, tt := range []struct {
		name      string
		instances []string
		opts      []openenv.Option
		fails     bool
		sockets   int // that the client tries
	}{
		{"the same server", []string{"a"}, []openenv.Option{openenv.WithManagedSession()}, false, 1},
		{"a server that says nothing", nil, []openenv.Option{openenv.WithManagedSession()}, false, 1},
		{"another one", []string{"a", "b", "a"}, []openenv.Option{openenv.WithManagedSession()}, true, 1},
		{"another one, resumed", []string{"a", "b", "b", "a"}, []openenv.Option{resume()}, false, 3},
		{"never the right one", []string{"a", "b"}, []openenv.Option{openenv.WithResume(openenv.Resume{Attempts: 3})}, true, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, k := kept(t, false, answer, tt.opts...)
				k.instances = tt.instances
				_, err := env.Reset(t.Context())
				if wrong, ok := errors.AsType[*openenv.WrongReplicaError](err); ok != tt.fails || ok && (wrong.Made != "a" || wrong.Answered != "b") {
					t.Errorf("Reset: %v", err)
				}
				if k.Accepted() != tt.sockets || k.made != 1 {
					t.Errorf("%d sockets, %d sessions made", k.Accepted(), k.made)
				}
			})
		})
	}
}

// The end of a session is asked for until the right server answers.
func TestCloseFindsTheRightReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, k := kept(t, false, answer, openenv.WithManagedSession())
		k.instances = []string{"a", "a", "b", "b", "a"}
		mustReset(t, env)
		if err := env.Close(); err != nil {
			t.Error(err)
		}
		if got := strings.Join(k.calls, " "); got != "openenv/session/create"+strings.Repeat(" openenv/session/close", 3) {
			t.Errorf("calls: %s", got)
		}
	})
}

// A request over HTTP that another server answered was not applied there.
func TestCallAnsweredByAnotherReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, k := kept(t, false, answer, openenv.WithManagedSession())
		k.instances = []string{"a", "a", "b", "a"}
		_, err := openenv.RPC(t.Context(), env, "tools/call", nil)
		wantAs[*openenv.WrongReplicaError](t, "RPC", err)
		if _, doubt := errors.AsType[*openenv.StepInDoubtError](err); doubt {
			t.Errorf("RPC: %v is no doubt", err)
		}
		if _, err := openenv.RPC(t.Context(), env, "tools/call", nil); err != nil {
			t.Errorf("RPC: %v", err)
		}
	})
}

// A server that cannot make a session says so in a type of its own.
func TestServerThatMakesNoSessions(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		want         func(error) bool
	}{
		{"it does not know the method", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found","data":null}}`, func(err error) bool {
			e, ok := errors.AsType[*openenv.RPCError](err)
			return ok && e.Code == -32601 && e.Data == nil
		}},
		{"it answers something else", `{"jsonrpc":"2.0","id":1,"result":{}}`, func(err error) bool {
			e, ok := errors.AsType[*openenv.DecodeError](err)
			return ok && e.Received == `"{}"`
		}},
		{"it has no such route", "", func(err error) bool {
			e, ok := errors.AsType[*openenv.ConnectError](err)
			return ok && e.Status == http.StatusNotFound
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := openenvtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if tt.answer == "" {
						http.NotFound(w, r)
						return
					}
					_, _ = w.Write([]byte(tt.answer))
				}))
				env := generic(t, srv.URL(), srv.Option(), openenv.WithManagedSession())
				if _, err := env.Reset(t.Context()); !tt.want(err) {
					t.Errorf("%v (%T)", err, err)
				}
			})
		})
	}
}
