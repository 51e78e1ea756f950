//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/provider/process"
)

// The environment of a child: its role, which test it is of, and what an owner owns.
const (
	roleVariable    = "OPENENV_PROCESS_TEST_ROLE"
	markVariable    = "OPENENV_PROCESS_TEST_NAME"
	ownedVariable   = "OPENENV_PROCESS_TEST_OWNED"
	scratchVariable = "OPENENV_PROCESS_TEST_SCRATCH"
)

// The commands that the tests run are this binary, in another role.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		log.SetFlags(0)
		if err := play(role); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(leak.Main(m))
}

func play(role string) error {
	address := "127.0.0.1:" + os.Getenv("PORT")
	switch role {
	case "serve":
		return serve(address)
	case "serve MY_PORT":
		if err := os.Unsetenv("PORT"); err != nil {
			return err
		}
		return serve("127.0.0.1:" + os.Getenv("MY_PORT"))
	case "serve argument":
		return serve(os.Args[len(os.Args)-1])
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		return serve(address)
	case "die":
		time.Sleep(100 * time.Millisecond)
		fmt.Fprintf(os.Stderr, "cannot open the game\nend %d\n", time.Now().UnixNano())
		os.Exit(3)
	case "silent":
		select {}
	case "launcher":
		return launch("serve")
	case "deaf launcher":
		signal.Ignore(syscall.SIGTERM)
		return launch("deaf")
	case "noisy":
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 10 << 10 {
			if _, err := os.Stderr.Write(line); err != nil {
				return err
			}
		}
		return serve(address)
	case "slow":
		time.Sleep(2 * time.Second)
		return serve(address)
	case "html":
		fmt.Fprintln(os.Stderr, "serving pages")
		return answer(address, http.StatusOK, "<html>hello</html>")
	case "unhealthy":
		return answer(address, http.StatusServiceUnavailable, "")
	case "exclusive":
		return exclusive(address)
	case "owner":
		return own(os.Getenv(ownedVariable), os.Getenv(scratchVariable))
	}
	return fmt.Errorf("no role %q", role)
}

func serve(address string) error {
	srv, err := envserver.New(echo.Spec, echo.New, envserver.WithMaxSessions(8))
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	return srv.ListenAndServe(ctx, address)
}

func launch(role string) error {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func answer(address string, status int, body string) error {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(os.Stderr, "polled")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the client may have left
	})
	return http.ListenAndServe(address, handler)
}

// exclusive serves on a port that is shared with nobody, not even with one that is
// only reserved.
func exclusive(address string) error {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = noReuse(fd) }), err)
	}}
	l, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	srv, err := envserver.New(echo.Spec, echo.New)
	if err != nil {
		return err
	}
	return srv.Serve(context.Background(), l)
}

// own starts a server and lives until it is killed.
func own(role, scratch string) error {
	p := process.New([]string{os.Args[0], "-test.run=^$"},
		process.WithEnv(map[string]string{roleVariable: role}),
		process.WithGrace(time.Second), process.WithScratch(scratch))
	if _, err := p.Start(context.Background()); err != nil {
		return err
	}
	if role != "silent" {
		if err := p.WaitReady(context.Background()); err != nil {
			return err
		}
	}
	fmt.Println("owned")
	select {}
}
