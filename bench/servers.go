package main

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// addresses are where the servers of one process listen.
type addresses struct {
	WS  string `json:"ws"`  // answers each message with the reply that ?size= asks for, with the WebSocket library alone
	TCP string `json:"tcp"` // the same over TCP
	Env string `json:"env"` // the environment
}

type servers struct {
	addresses
	close func()
}

// mostSessions is more than one group of contenders opens, and a storm.
const mostSessions = 8192

// startServers serves all of them in this process.
func startServers() (*servers, error) {
	env, err := newServer(mostSessions)
	if err != nil {
		return nil, err
	}
	var ls []net.Listener
	closeListeners := func() {
		for _, l := range ls {
			l.Close()
		}
	}
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			closeListeners()
			return nil, err
		}
		ls = append(ls, l)
	}
	bare := &http.Server{Handler: http.HandlerFunc(answerWS), ReadHeaderTimeout: time.Minute}
	served := &http.Server{Handler: env, ReadHeaderTimeout: time.Minute}
	go func() { _ = bare.Serve(ls[0]) }()   // ends with Close
	go answerTCP(ls[1])                     // ends with the listener
	go func() { _ = served.Serve(ls[2]) }() // ends with Close
	at := addresses{WS: "http://" + ls[0].Addr().String(), TCP: ls[1].Addr().String(), Env: "http://" + ls[2].Addr().String()}
	return &servers{at, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = env.Shutdown(ctx)
		bare.Close()
		served.Close()
		closeListeners()
	}}, nil
}

// answerWS reads a message and writes the reply, for as long as the client stays.
func answerWS(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.Atoi(r.URL.Query().Get("size"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply, err := replyFrame(size)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	for {
		if _, _, err := ws.Read(context.Background()); err != nil {
			return
		}
		if err := ws.Write(context.Background(), websocket.MessageText, reply); err != nil {
			return
		}
	}
}

// answerTCP does the same on connections whose first four bytes are the size.
func answerTCP(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = answerConn(conn) // ends when the client leaves
		}()
	}
}

func answerConn(conn net.Conn) error {
	var size [4]byte
	if _, err := conn.Read(size[:]); err != nil {
		return err
	}
	body, err := replyFrame(int(binary.BigEndian.Uint32(size[:])))
	if err != nil {
		return err
	}
	reply := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	var buf []byte
	for {
		if buf, err = readSized(conn, buf); err != nil {
			return err
		}
		if _, err := conn.Write(reply); err != nil {
			return err
		}
	}
}
