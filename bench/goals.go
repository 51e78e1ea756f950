package main

// The ratios of steps that the project aims at. A ratio is the time of one over that
// of the other, so that "Python ÷ Go" is how many times faster Go is.
type goal struct {
	what   string
	of, to key
	limit  float64 // 0: reported without a goal
	most   bool    // less is better
}

func goals() []goal {
	k := func(client, server string, sessions, size int) key { return key{client, server, sessions, size} }
	pair := func(sessions, size int) key { return k(pyAsync, pyServer, sessions, size) }
	two := func(sessions, size int) key { return k(goTyped, goServer, sessions, size) }
	list := []goal{
		{"step ÷ bare WebSocket, one process", k(goTyped, embedded, 1, small), k(bareWS, floorOne, 1, small), 1.6, true},
		{"step ÷ bare WebSocket, two processes", two(1, small), k(bareWS, floorTwo, 1, small), 1.3, true},
		{"Python async pair ÷ Go, same process", pair(1, small), k(goTyped, embedded, 1, small), 15, false},
		{"Python async pair ÷ Go pair", pair(1, small), two(1, small), 6, false},
		{"Python async pair with a coroutine for a step ÷ Go pair", k(pyAsync, pyCoroutines, 1, small), two(1, small), 0, false},
		{"Python async client ÷ Go client, both on the Python server", pair(1, small), k(goTyped, pyServer, 1, small), 1.2, false},
		{"Python async client ÷ Go client, both on the Python server with a coroutine", k(pyAsync, pyCoroutines, 1, small), k(goTyped, pyCoroutines, 1, small), 0, false},
		{"Python async pair ÷ Python async client on the Go server", pair(1, small), k(pyAsync, goServer, 1, small), 2, false},
		{"Python sync pair ÷ Python sync client on the Go server", k(pySync, pyServer, 1, small), k(pySync, goServer, 1, small), 1.3, false},
		{"64 sessions: Python async pair ÷ Go pair", pair(64, small), two(64, small), 14, false},
		{"64 sessions: Python async pair with a coroutine ÷ Go pair", k(pyAsync, pyCoroutines, 64, small), two(64, small), 0, false},
		{"10 KiB: Python async pair ÷ Go pair", pair(1, medium), two(1, medium), 5, false},
		{"10 KiB, 64 sessions: Python async pair ÷ Go pair", pair(64, medium), two(64, medium), 5, false},
		{"1 MiB: Python async pair ÷ Go pair", pair(1, large), two(1, large), 2.5, false},
		{"1 MiB: Python async pair ÷ Go pair, json.RawMessage", pair(1, large), k(goJSON, goServer, 1, large), 0, false},
		{"1 MiB, 64 sessions: Python async pair ÷ Go pair", pair(64, large), two(64, large), 2.5, false},
		{"50 MiB: Python async pair ÷ Go pair", pair(1, huge), two(1, huge), 2, false},
		{"50 MiB: Python async pair ÷ Go pair, json.RawMessage", pair(1, huge), k(goJSON, goServer, 1, huge), 0, false},
		{"await ÷ blocking, one process", k(goAwait, embedded, 1, small), k(goTyped, embedded, 1, small), 1.2, true},
		{"start and await ÷ blocking, one process", k(goStart, embedded, 1, small), k(goTyped, embedded, 1, small), 0, true},
		{"with ÷ without WithResume, two processes", k(goResume, goServer, 1, small), two(1, small), 0, true},
		{"with ÷ without WithResume, on the Python server", k(goResume, pyServer, 1, small), k(goTyped, pyServer, 1, small), 0, true},
		{"raw map ÷ typed, one process", k(goMap, embedded, 1, small), k(goTyped, embedded, 1, small), 0, true},
	}
	return list
}

// judge makes the ratios of what was measured; goals of other runs are left out.
func (b *bench) judge() (rs []Ratio) {
	for _, g := range goals() {
		of, to := b.find(g.of), b.find(g.to)
		if of == nil || to == nil {
			continue
		}
		v := spreadOf(ratios(of.us, to.us))
		switch {
		case g.limit == 0:
			rs = append(rs, Ratio{What: g.what, Value: v, Unit: "×", Met: true})
		case g.most:
			rs = append(rs, atMost(g.what, v, g.limit, "×"))
		default:
			rs = append(rs, atLeast(g.what, v, g.limit, "×"))
		}
	}
	for _, size := range []int{large, huge} {
		step := b.find(key{goTyped, goServer, 1, size})
		wire, alone := b.find(key{bareWS, floorTwo, 1, size}), b.find(key{codec, "", 1, size})
		if step == nil || wire == nil || alone == nil {
			continue
		}
		floor := make([]float64, len(step.us))
		for i := range floor {
			floor[i] = wire.us[i] + alone.us[i]
		}
		what, v := sizeText(size)+": step ÷ (encode and decode + bare WebSocket), two processes", spreadOf(ratios(step.us, floor))
		if size == large {
			rs = append(rs, atMost(what, v, 1.25, "×"))
			continue
		}
		rs = append(rs, Ratio{What: what, Value: v, Unit: "×", Met: true})
	}
	return rs
}

func (b *bench) figures() (fs []Figure) {
	for _, c := range b.measured {
		fs = append(fs, Figure{c.client, c.server, c.sessions, c.size, spreadOf(c.us)})
	}
	return fs
}
