package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/internal/wire"
)

// newBareWS is the floor of a step: the same bytes over the same WebSocket library,
// with nothing encoded, decoded or checked. One goroutine reads for the life of the
// connection, as a client must, and hands each message over.
func newBareWS(ctx context.Context, k key, url string) (*contender, error) {
	request, err := actionFrame(k.size)
	if err != nil {
		return nil, err
	}
	var steppers []stepper
	var sockets []*websocket.Conn
	end := func() {
		for _, ws := range sockets {
			_ = ws.CloseNow()
		}
	}
	for range k.sessions {
		ws, _, err := websocket.Dial(ctx, url+"/?size="+strconv.Itoa(k.size), nil) //nolint:bodyclose // the library closes it
		if err != nil {
			end()
			return nil, err
		}
		sockets = append(sockets, ws)
		steppers = append(steppers, bareSocket(context.WithoutCancel(ctx), ws, request))
	}
	return inTurn(k, steppers, end), nil
}

func bareSocket(reading context.Context, ws *websocket.Conn, request []byte) stepper {
	ws.SetReadLimit(-1)
	replies := make(chan *bytes.Buffer)
	failed := make(chan error, 1)
	go func() { // until the socket is closed
		buf := new(bytes.Buffer)
		for {
			_, r, err := ws.Reader(reading)
			if err == nil {
				buf.Reset()
				_, err = buf.ReadFrom(r)
			}
			if err != nil {
				failed <- err
				return
			}
			replies <- buf
		}
	}()
	return func(ctx context.Context) error {
		if err := ws.Write(ctx, websocket.MessageText, request); err != nil {
			return err
		}
		select {
		case <-replies:
			return nil
		case err := <-failed:
			return err
		}
	}
}

// newBareTCP is the network alone: the bytes of a step and its reply with a length in
// front, without a hand-over.
func newBareTCP(k key, address string) (*contender, error) {
	body, err := actionFrame(k.size)
	if err != nil {
		return nil, err
	}
	request := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	var steppers []stepper
	var conns []net.Conn
	end := func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range k.sessions {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conns = append(conns, conn)
			_, err = conn.Write(binary.BigEndian.AppendUint32(nil, uint32(k.size)))
		}
		if err != nil {
			end()
			return nil, err
		}
		var buf []byte
		steppers = append(steppers, func(context.Context) error {
			if _, err := conn.Write(request); err != nil {
				return err
			}
			buf, err = readSized(conn, buf)
			return err
		})
	}
	return inTurn(k, steppers, end), nil
}

// readSized reads a length and so many bytes, into buf if they fit.
func readSized(r io.Reader, buf []byte) ([]byte, error) {
	buf = append(buf[:0], 0, 0, 0, 0)
	if _, err := io.ReadFull(r, buf); err != nil {
		return buf, err
	}
	size := int(binary.BigEndian.Uint32(buf))
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err := io.ReadFull(r, buf)
	return buf, err
}

// newCodec is what a step encodes and decodes at both ends, without a network.
func newCodec(k key) (*contender, error) {
	env, err := newSized(context.Background())
	if err != nil {
		return nil, err
	}
	action := echo.Action{Message: message(k.size)}
	step := func(ctx context.Context) error {
		request, reply := wire.GetBuffer(), wire.GetBuffer()
		defer wire.PutBuffer(request)
		defer wire.PutBuffer(reply)
		if err := wire.AppendFrame(request, wire.TypeStep, action); err != nil {
			return err
		}
		data, ok := wire.StepData(request.Bytes())
		if !ok {
			return errors.New("not the spelling of a step")
		}
		var taken echo.Action
		if err := wire.Unmarshal(data, &taken, wire.Float64); err != nil {
			return err
		}
		res, err := env.Step(ctx, taken)
		if err != nil {
			return err
		}
		if err := wire.AppendObservation(reply, res.Observation, res.Reward, res.Done, res.Metadata); err != nil {
			return err
		}
		_, err = wire.DecodeObservation[echo.Observation](reply.Bytes(), wire.Float64)
		return err
	}
	return inTurn(k, []stepper{step}, func() {}), nil
}

// actionFrame is a step as it goes over the wire.
func actionFrame(size int) ([]byte, error) {
	var b bytes.Buffer
	err := wire.AppendFrame(&b, wire.TypeStep, echo.Action{Message: message(size)})
	return b.Bytes(), err
}

// replyFrame is an observation as it goes over the wire.
func replyFrame(size int) ([]byte, error) {
	env, err := newSized(context.Background())
	if err != nil {
		return nil, err
	}
	res, err := env.Step(context.Background(), echo.Action{Message: message(size)})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = wire.AppendObservation(&b, res.Observation, res.Reward, res.Done, res.Metadata)
	return b.Bytes(), err
}
