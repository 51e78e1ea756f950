package envserver

import (
	"encoding/json"
	"testing"
)

func TestMethodOf(t *testing.T) {
	for body, want := range map[string]string{
		`{"method":"initialize"}`:                           "initialize",
		`{"params":{"method":"x","a":[{}]},"method":"a/b"}`: "a/b",
		`{"method":7}`:     "",
		`{"id":1}`:         "",
		`[{"method":"x"}]`: "",
		`{"method":"x"`:    "x", // what follows is for the parser
		`{bad`:             "",
		``:                 "",
		`{"m\u0065thod":"openenv\/session\/create"}`:            "openenv/session/create",
		"{\"jsonrpc\":\"2.0\", \n \"method\" : \"tools/list\"}": "tools/list",
	} {
		if got := methodOf([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

// What the quick look at a body finds is what the parser finds.
func FuzzMethodOf(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`))
	f.Add([]byte(`{"params":[1,{"method":"x"}],"method":"openenv/session/create","jsonrpc":"2.0"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		method := methodOf(body)
		req, fail := parseRPC(body)
		if fail == nil && *req.Method != method {
			t.Errorf("%q: %q, the parser says %q", body, method, *req.Method)
		}
	})
}

// Equal ids have one key, and a key is an id's again.
func FuzzIDKey(f *testing.F) {
	f.Add([]byte(`1`))
	f.Add([]byte(`"a\u0041"`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, id []byte) {
		key := idKey(id)
		if key == "" || !json.Valid(id) { // only what was parsed is asked about
			return
		}
		if again := idKey(json.RawMessage(key)); again != key {
			t.Errorf("%q: %q, and of that %q", id, key, again)
		}
		if !json.Valid([]byte(key)) {
			t.Errorf("%q: %q is not one value", id, key)
		}
	})
}
