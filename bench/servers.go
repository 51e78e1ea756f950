package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
)

// addresses are where the two servers of a process listen.
type addresses struct {
	Bare string `json:"bare"` // echoes every message, with the WebSocket library alone
	Env  string `json:"env"`  // the echo environment
}

type servers struct {
	addresses
	close func()
}

// startServers serves both in this process.
func startServers() (*servers, error) {
	env, err := envserver.New(echo.Spec, echo.New, envserver.WithMaxSessions(1024))
	if err != nil {
		return nil, err
	}
	bare, err := listen(http.HandlerFunc(bareEcho))
	if err != nil {
		return nil, err
	}
	served, err := listen(env)
	if err != nil {
		bare.Close()
		return nil, err
	}
	return &servers{addresses{bare.url(), served.url()}, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = env.Shutdown(ctx)
		bare.Close()
		served.Close()
	}}, nil
}

type listening struct {
	*http.Server
	l net.Listener
}

func (l listening) url() string { return "http://" + l.l.Addr().String() }

func listen(h http.Handler) (listening, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return listening{}, err
	}
	hs := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = hs.Serve(l) }() // ends with Close
	return listening{hs, l}, nil
}

func bareEcho(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	for {
		_, msg, err := ws.Read(context.Background())
		if err != nil {
			return
		}
		if err := ws.Write(context.Background(), websocket.MessageText, msg); err != nil {
			return
		}
	}
}

const childCommand = "serve-child"

// serveChild is the second process: it prints its addresses and serves until its
// standard input ends.
func serveChild() error {
	s, err := startServers()
	if err != nil {
		return err
	}
	defer s.close()
	if err := json.NewEncoder(os.Stdout).Encode(s.addresses); err != nil {
		return err
	}
	buf := make([]byte, 1)
	_, _ = os.Stdin.Read(buf) // the parent is gone
	return nil
}

type child struct {
	addresses
	stop func()
}

func startChild(ctx context.Context) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, childCommand)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{stop: func() { in.Close(); _ = cmd.Wait() }}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c.addresses)
	}
	if err != nil {
		c.stop()
		return nil, errors.Join(fmt.Errorf("second process: %w", err))
	}
	return c, nil
}
