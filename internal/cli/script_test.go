package cli

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/dockertest"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// noExitDelay keeps a command under the race detector from waiting a second for
// other goroutines when it ends; the value is for the variable GORACE.
const noExitDelay = "atexit_sleep_ms=0"

// The test binary is the command, too.
func TestMain(m *testing.M) {
	testscript.Main(withEngineMain{m}, map[string]func(){
		"oenv": func() { os.Exit(Main(os.Args[1:], System())) },
	})
}

// withEngineMain runs the tests with an engine to be had; the command needs none.
type withEngineMain struct{ m *testing.M }

func (w withEngineMain) Run() int { return dockertest.Main(w.m) }

// The scripts in testdata/script say what each command prints and how it ends. Their
// servers run in the test's process, which is another one than the command's.
func TestScripts(t *testing.T) {
	leak.Check(t)
	url, _ := startEcho(t, 64)
	tools, _ := startTools(t, 64)
	strict, _ := startTools(t, 1, envserver.WithMode(openenv.ModeProduction), envserver.WithStrictProduction())
	vars := map[string]string{
		"URL":         url,
		"TOOLS":       tools,
		"STRICT":      strict,
		"BUSY":        busyTools(t),
		"CONTROL":     "a\x01b",
		"GORACE":      noExitDelay,
		"FULL":        occupied(t),
		"UNSTEADY":    unsteady(t, url),
		"PLAIN":       unnumbered(t, 64),
		"GUARDED":     guarded(t),
		"SILENT":      silent(t),
		"PORT":        portOf(silent(t)), // taken
		"CHECKOUT":    testenv.Root(t),
		"UNREACHABLE": unreachable(t),
		"HEALTHONLY":  answers(t, map[string]string{"/health": `{"status":"starting"}`}),
		"BROKEN":      answers(t, map[string]string{"/health": `{"status":"healthy"}`, "/metadata": "", "/schema": "<html>"}),
		"NOTHING":     answers(t, nil),
		"FAILING":     answers(t, map[string]string{"/health": "", "/metadata": "", "/schema": ""}),
		"HOSTILE":     answers(t, map[string]string{"/health": `{"status":"\u001b[2J\nhealthy"}`, "/metadata": `{"name":"a\u001b[31mb","description":"c\r\nd"}`, "/schema": `{"action":{"properties":{"\u001b[2J":{"type":"string","description":"e\u0007f"}}},"observation":17,"state":true}`}),
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "serving": serving, "launching": launching, "ending": ending,
		},
		Setup: func(env *testscript.Env) error {
			env.Values[launchedKey{}] = map[string]*launched{}
			for name, value := range vars {
				env.Setenv(name, value)
			}
			return nil
		},
	})
}

// exits runs a program and compares its exit code: exits CODE PROGRAM ARGS….
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
