package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout/record"
)

// header is that of the run that the tests write.
func header() record.Header {
	return record.Header{
		Kind:     record.KindRollout,
		Identity: &record.Identity{Schema: "sha256:00", Policy: "random", Seed: 7, Limits: record.Limits{Steps: 3}},
	}
}

// episode is one that a run could have played.
func episode(n int) *record.Episode {
	reset := fmt.Sprintf(`{"type":"reset","data":{"seed":%d}}`, n)
	ready := `{"type":"observation","data":{"observation":{"echoed": "ready","length":0},"reward":null,"done":false}}`
	step := fmt.Sprintf(`{"type":"step","data":{"message":"<%d> & héllo 😀"}}`, n)
	done := `{"type":"observation","data":{"observation":{"echoed":"\u00e9","n":1.50},"reward":true,"done":true}}`
	return &record.Episode{
		Index: n, Seed: new(int64(n)), Ending: record.Terminated, Return: 1, Steps: 1,
		Exchanges: []record.Exchange{record.NewExchange([]byte(reset), []byte(ready)), record.NewExchange([]byte(step), []byte(done))},
		Attempts:  []record.Attempt{{Number: 1, Ending: record.Terminated, Steps: 1, Started: time.Unix(int64(n), 0).UTC(), Millis: []float64{1.5, 2}}},
	}
}

func write(t *testing.T, path string, limit int, episodes ...*record.Episode) {
	t.Helper()
	w, err := record.Create(path, header(), limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range episodes {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, path string) *record.File {
	t.Helper()
	file, err := record.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Whatever a peer sends comes out of the file as it went in.
func TestFramesByteForByte(t *testing.T) {
	big := strings.Repeat("x", 200)
	for _, tt := range []struct{ name, request, reply string }{
		{"usual", `{"type":"step","data":{"a":1}}`, `{"type":"observation","data":{"observation":{"b":2},"reward":1,"done":false}}`},
		{"spaces", `{"type": "step", "data": {"a": 1}}`, ` {"type": "observation", "data": {"observation": {"b": 2}, "done": false} } `},
		{"newlines", "{\"type\":\"step\",\n\"data\":{\n\"a\":1}}", "{\"type\":\"observation\",\"data\":{\r\n\"observation\":{}}}"},
		{"order", `{"data":{"a":1},"type":"step"}`, `{"x":[],"data":{"observation":null},"type":"observation","y":1}`},
		{"html and escapes", `{"type":"step","data":{"a":"<b>&\u003c\/"}}`, `{"type":"observation","data":{"observation":{"a":"\ud83d\ude00\u0000"}}}`},
		{"duplicate keys", `{"type":"step","data":{"a":1,"a":2}}`, `{"type":"observation","data":{"observation":{},"observation":{}}}`},
		{"type twice", `{"type":"step","type":"reset"}`, `{"type":"observation","data":1,"data":2}`},
		{"no data", `{"type":"state"}`, `{"type":"state","data":{"step_count":1}}`},
		{"null data", `{"type":"reset","data":null}`, `{"type":"observation","data":null}`},
		{"error", `{"type":"step","data":{}}`, `{"type":"error","data":{"message":"no","code":"EXECUTION_ERROR"}}`},
		{"no reply", `{"type":"close"}`, ""},
		{"unasked", "", `{"type":"error","data":{"code":"CAPACITY_REACHED"}}`},
		{"not JSON", `hello`, `{"type":`},
		{"not an object", `[1]`, `7`},
		{"strange type", `{"type":7}`, `{"type":"a\"b","data":1}`},
		{"not UTF-8", "{\"type\":\"step\",\"data\":\"\xff\"}", "\xfe"},
		{"large", `{"type":"step","data":{}}`, `{"type":"observation","data":{"observation":{"big":"` + big + `"},"reward":0,"done":false}}`},
		{"large, spaces", `{"type":"step","data":{}}`, `{"type": "observation", "data": {"reward": 0, "observation": {"big": "` + big + "\\n\"\n}}}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r.jsonl")
			bytesOf := func(s string) []byte {
				if s == "" {
					return nil
				}
				return []byte(s)
			}
			x := record.NewExchange(bytesOf(tt.request), bytesOf(tt.reply))
			write(t, path, 100, &record.Episode{Exchanges: []record.Exchange{x}})
			if lines := bytes.Count(read(t, path), []byte("\n")); lines != 2 {
				t.Errorf("%d lines, want a header and an episode", lines)
			}
			got := &load(t, path).Episodes[0].Exchanges[0]
			if request := string(got.Request()); request != tt.request {
				t.Errorf("request %q, want %q", request, tt.request)
			}
			if reply, err := got.ReplyFrame(); err != nil || string(reply) != tt.reply {
				t.Errorf("reply %q, %v, want %q", reply, err, tt.reply)
			}
		})
	}
}

func TestBinaryMessages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	var x record.Exchange
	x.SetBinary([]byte{0, 255}, false)
	x.SetBinary([]byte("plain"), true)
	write(t, path, 0, &record.Episode{Exchanges: []record.Exchange{x}})
	got := load(t, path).Episodes[0].Exchanges[0]
	reply, err := got.Reply()
	if got.Op != record.OpBinary || got.Type != record.OpBinary || string(got.Data) != "\x00\xff" || err != nil || string(reply) != "plain" {
		t.Errorf("got %+v, reply %q, %v", got, reply, err)
	}
}

func TestEpisodeComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	bad := &record.Episode{Index: 1, Seed: new(int64(1 << 31)), Ending: record.EnvError, Error: "EXECUTION_ERROR: \xff boom\n", Exchanges: []record.Exchange{}}
	session := &record.Episode{Index: 2, Exchanges: []record.Exchange{}, Closed: &record.Closed{By: "client", Code: 1000, Reason: "bye"}}
	cut := &record.Episode{Index: 3, Ending: record.Truncated, Limit: record.LimitTime, Return: -2.5, Exchanges: []record.Exchange{}}
	write(t, path, 0, episode(0), bad, session, cut)
	file := load(t, path)
	bad.Error = "EXECUTION_ERROR: \uFFFD boom\n"
	for i, want := range []*record.Episode{episode(0), bad, session, cut} {
		if got := file.Episodes[i]; !reflect.DeepEqual(got, want) {
			t.Errorf("episode %d:\n%+v, want\n%+v", i, got, want)
		}
	}
	res, err := file.Episodes[0].Exchanges[1].Result()
	if err != nil || string(res.Observation) != `{"echoed":"\u00e9","n":1.50}` || res.Reward == nil || *res.Reward != 1 || !res.Done {
		t.Errorf("result %+v, %v", res, err)
	}
	if got := file.Header.Identity; !reflect.DeepEqual(got, header().Identity) {
		t.Errorf("identity %+v", got)
	}
}

// An observation over the limit is in a file of its own, once however often it comes,
// and a file that was changed is noticed.
func TestLargeObservationsAreStoredOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	screen := `{"pixels":"` + strings.Repeat("ab", 500) + `"}`
	var exchanges []record.Exchange
	for i := range 5 {
		reply := fmt.Sprintf(`{"type":"observation","data":{"observation":%s,"reward":%d,"done":false}}`, screen, i)
		exchanges = append(exchanges, record.NewExchange([]byte(`{"type":"step","data":{}}`), []byte(reply)))
	}
	write(t, path, 1000, &record.Episode{Exchanges: exchanges}, &record.Episode{Index: 1, Exchanges: exchanges})
	stored, err := os.ReadDir(path + ".observations")
	if err != nil || len(stored) != 1 {
		t.Fatalf("%d files, %v, want one", len(stored), err)
	}
	name := filepath.Join(path+".observations", stored[0].Name())
	if got := string(read(t, name)); got != screen {
		t.Errorf("stored %q", got)
	}
	if size := len(read(t, path)); size > 4000 {
		t.Errorf("the record has %d bytes, as if it had the observations", size)
	}
	last := &load(t, path).Episodes[1].Exchanges[4]
	if res, err := last.Result(); err != nil || string(res.Observation) != screen || *res.Reward != 4 {
		t.Errorf("result %+v, %v", res, err)
	}
	if err := os.WriteFile(name, []byte(`{"pixels":""}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := last.Reply(); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a changed file: %v", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := last.ReplyFrame(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// A file may be cut at any byte, that of the header included: what is whole stays, the
// rest is played again, and the file is as if nothing had happened.
func TestResumeAfterACutAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.jsonl")
	const n = 2
	var ends []int
	write(t, whole, 0, episode(0), episode(1))
	content := read(t, whole)
	for i, b := range content {
		if b == '\n' {
			ends = append(ends, i+1)
		}
	}
	path := filepath.Join(dir, "cut.jsonl")
	for cut := 0; cut <= len(content); cut++ {
		if err := os.WriteFile(path, content[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := record.Resume(path, header(), 0)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		for i := range n {
			if finished := cut >= ends[i+1]; w.Finished(i) != finished {
				t.Fatalf("cut at %d: episode %d finished: %v, want %v", cut, i, w.Finished(i), finished)
			}
			if !w.Finished(i) {
				if err := w.Write(episode(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); !bytes.Equal(got, content) {
			t.Fatalf("cut at %d: the file is\n%s\nwant\n%s", cut, got, content)
		}
	}
}

// What was not played to an end is played again, and its last line counts.
func TestResumeOfWhatWasNotFinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	cancelled, lost, failed := episode(0), episode(1), episode(2)
	cancelled.Ending, lost.Ending, failed.Ending = record.Cancelled, record.Lost, record.EnvError
	write(t, path, 0, cancelled, lost, failed)
	w, err := record.Resume(path, header(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if w.Finished(0) || w.Finished(1) || !w.Finished(2) || w.Finished(3) {
		t.Errorf("finished: %v %v %v %v", w.Finished(0), w.Finished(1), w.Finished(2), w.Finished(3))
	}
	if err := errors.Join(w.Write(episode(0)), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got := load(t, path).Episodes[0].Ending; got != record.Terminated {
		t.Errorf("episode 0 is %s", got)
	}
}

func TestResumeRefusesAnotherRun(t *testing.T) {
	one := 1.0
	for _, tt := range []struct {
		name   string
		change func(*record.Header)
		want   string
	}{
		{"seed", func(h *record.Header) { h.Identity.Seed = 8 }, "seed: 7 there, 8 here"},
		{"schema", func(h *record.Header) { h.Identity.Schema = "sha256:01" }, "schema: sha256:00 there, sha256:01 here"},
		{"policy", func(h *record.Header) { h.Identity.Policy = "greedy" }, "policy: random there, greedy here"},
		{"steps", func(h *record.Header) { h.Identity.Limits.Steps = 0 }, "limit of steps: 3 there, none here"},
		{"time", func(h *record.Header) { h.Identity.Limits.Time = time.Minute }, "limit of time: none there, 1m0s here"},
		{"return", func(h *record.Header) { h.Identity.Limits.MaxReturn = &one }, "highest return: none there, 1 here"},
		{"reset", func(h *record.Header) { h.Identity.Reset = json.RawMessage(`{"b":1, "a":2}`) }, `reset parameters: none there, {"a":2,"b":1} here`},
		{"kind", func(h *record.Header) { h.Kind = record.KindRecording }, "kind: rollout there, recording here"},
		{"two", func(h *record.Header) { h.Identity.Seed, h.Identity.Policy = 8, "greedy" }, "policy: random there, greedy here; seed: 7 there, 8 here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r.jsonl")
			write(t, path, 0, episode(0))
			if err := os.WriteFile(path, append(read(t, path), `{"epis`...), 0o600); err != nil {
				t.Fatal(err)
			}
			before := read(t, path)
			other := header()
			tt.change(&other)
			_, err := record.Resume(path, other, 0)
			different, ok := errors.AsType[*record.IdentityError](err)
			if !ok || strings.Join(different.Differences, "; ") != tt.want || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("got %v, want the difference %s", err, tt.want)
			}
			if !bytes.Equal(read(t, path), before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestFilesThatAreNoRecords(t *testing.T) {
	head := `{"openenv_record":1,"kind":"rollout","identity":{"schema":"sha256:00","policy":"random","seed":7,"limits":{"steps":3}}}` + "\n"
	for _, tt := range []struct {
		name, content string
		line          int
		offset        int64
		want          string
	}{
		{"other lines", `{"episode":1}` + "\n", 1, 0, "no header comes before it"},
		{"newer", `{"openenv_record":2}` + "\n", 1, 0, "format version 2"},
		{"text", "hello\n", 1, 0, "invalid character"},
		{"text without an end", "hello", 1, 0, "no header"},
		{"damage", head + "\x00\x00\n", 2, int64(len(head)), "invalid character"},
		{"other object", head + "{}\n", 2, int64(len(head)), "neither a header"},
		{"bad parts", head + `{"episode":1,"exchanges":[{"op":"step","data_around":["a"]}]}` + "\n", 2, int64(len(head)), "exchange 0: data_around has 1 parts, not 2"},
		{"a reference out of the folder", head + `{"episode":1,"exchanges":[{"op":"step","observation_ref":"../../x","observation_around":["",""]}]}` + "\n", 2, int64(len(head)), "no reference"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r.jsonl")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, loadErr := record.Load(path)
			_, resumeErr := record.Resume(path, header(), 0)
			for _, err := range []error{loadErr, resumeErr} {
				corrupt, ok := errors.AsType[*record.CorruptError](err)
				if !ok || corrupt.Line != tt.line || corrupt.Offset != tt.offset || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want line %d, byte %d: %s", err, tt.line, tt.offset, tt.want)
				}
			}
			if string(read(t, path)) != tt.content {
				t.Error("the file was changed")
			}
		})
	}
}

func TestCreateDoesNotOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	write(t, path, 0)
	if _, err := record.Create(path, header(), 0); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
}

// The digest says what the schemas mean and not how they are written.
func TestSchemaDigest(t *testing.T) {
	digest := func(action string) string {
		d, err := record.SchemaDigest(openenv.Schema{Action: json.RawMessage(action), Observation: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one := digest(`{"type":"object","title":"A"}`)
	if other := digest("{ \"title\": \"A\",\n \"type\": \"object\" }"); other != one {
		t.Errorf("%s and %s", one, other)
	}
	if other := digest(`{"type":"object","title":"B"}`); other == one {
		t.Error("another title has the same digest")
	}
	if _, err := record.SchemaDigest(openenv.Schema{Action: json.RawMessage(`{`)}); err == nil {
		t.Error("a schema that is not JSON has a digest")
	}
}

// Whatever two frames are, they come back.
func FuzzExchange(f *testing.F) {
	f.Add([]byte(`{"type":"step","data":{"a":1}}`), []byte(`{"type":"observation","data":{"observation":{"b":[1,2,3]},"reward":1}}`))
	f.Add([]byte(`{"type": "reset"}`), []byte("\xff\n"))
	f.Add([]byte(`{"a":1,"type":"é","data":"\ud800"} `), []byte(`{}`))
	f.Fuzz(func(t *testing.T, request, reply []byte) {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if len(request) == 0 || len(reply) == 0 {
			return // an empty frame is none
		}
		write(t, path, 8, &record.Episode{Exchanges: []record.Exchange{record.NewExchange(request, reply)}})
		x := &load(t, path).Episodes[0].Exchanges[0]
		if got := x.Request(); !bytes.Equal(got, request) {
			t.Errorf("request %q came back as %q", request, got)
		}
		if got, err := x.ReplyFrame(); err != nil || !bytes.Equal(got, reply) {
			t.Errorf("reply %q came back as %q, %v", reply, got, err)
		}
	})
}

// No line makes a reader fail in another way than with an error.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"episode":0,"exchanges":[{"op":"reset","data":{},"reply":{}}]}`))
	f.Add([]byte(`{"http":{"method":"GET","path":"/","status":200,"body":{}}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		content := append([]byte(`{"openenv_record":1,"kind":"recording"}`+"\n"), line...)
		if err := os.WriteFile(path, append(content, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := record.Load(path)
		if err != nil {
			return
		}
		for _, e := range file.Episodes {
			for i := range e.Exchanges {
				_ = e.Exchanges[i].Request()
				_, _ = e.Exchanges[i].ReplyFrame()
				_, _ = e.Exchanges[i].Result()
			}
		}
	})
}
