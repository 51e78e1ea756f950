package cli

import (
	"testing"
	"time"

	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/record"
)

func TestBarLine(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   rollout.Progress
		want string
	}{
		{"nothing yet", rollout.Progress{Total: 10}, "[····················] 0/10 episodes, 0 steps/s, mean return 0"},
		{
			"half", rollout.Progress{
				Episodes: 5, Total: 10, Steps: 200, MeanReturn: -0.25, Elapsed: 4 * time.Second,
				Endings: map[record.Ending]int{record.EnvError: 1, record.Terminated: 4},
			},
			"[██████████··········] 5/10 episodes, 50 steps/s, mean return -0.25, 4 terminated, 1 environment error, 4s left",
		},
		{
			"done", rollout.Progress{Episodes: 10, Total: 10, Steps: 10, Elapsed: time.Second, Endings: map[record.Ending]int{record.Truncated: 10}},
			"[████████████████████] 10/10 episodes, 10 steps/s, mean return 0, 10 truncated",
		},
		{"nothing to do", rollout.Progress{}, "[····················] 0/0 episodes, 0 steps/s, mean return 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := barLine(tt.at); got != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

// An address, or an image with a tag?
func TestLooksLikeURL(t *testing.T) {
	for text, want := range map[string]bool{
		"http://localhost:8000": true, "ws://x": true, "localhost:8000": true, "127.0.0.1:80": true, "[::1]:80": true,
		"env.example.org:8000": true, "echo:1": false, "python:3.12": false, "registry.example.com:5000/echo": false,
		"git+https://example.org/x": false, "org/space": false, "gridworld": false, "./dir": false, "example.org:latest": false,
	} {
		if got := looksLikeURL(text); got != want {
			t.Errorf("%s is an address: %v, want %v", text, got, want)
		}
	}
}
