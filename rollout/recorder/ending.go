package recorder

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// errEnded stands for io.EOF on the connections below sockets: the library takes that
// for the end of a message when it meets it in the middle of one (coder/websocket,
// msgReader.Read), and half a message would be passed on as a whole one.
var errEnded = errors.New("connection ended")

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return errEnded
	}
	return err
}

// hijacked is a ResponseWriter whose connection ends with errEnded.
type hijacked struct{ http.ResponseWriter }

func (h *hijacked) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return endedConn{conn}, buffered, nil
}

type endedConn struct{ net.Conn }

func (c endedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, ended(err)
}

// upgraded is a transport whose upgraded connections end with errEnded.
type upgraded struct{ next http.RoundTripper }

func (u upgraded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = endedBody{conn}
	}
	return resp, nil
}

type endedBody struct{ io.ReadWriteCloser }

func (b endedBody) Read(p []byte) (int, error) {
	n, err := b.ReadWriteCloser.Read(p)
	return n, ended(err)
}
