// Package recorder stands between any OpenEnv client and any server and puts on file
// what they say to each other:
//
//	w, err := record.Create("session.jsonl", record.Header{Kind: record.KindRecording}, 0)
//	r, err := recorder.New("http://localhost:8000", w)
//	http.Serve(listener, r)
//
// Messages of sockets pass unchanged, as do HTTP requests and answers; each session
// becomes a line when it ends, each small JSON exchange over HTTP a line of its own. Package
// standin plays the server of such a file.
package recorder
