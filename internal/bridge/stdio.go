package bridge

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage bounds a message of the host.
const maxMessage = 100 << 20

// Stdio serves one session over in and out until in ends, which is a host's way to leave
// and returns nil, or until ctx ends. What was asked before the end of in is answered, if
// that takes no longer than a second. The environment's session is opened before the
// first message is read: an environment that is not there, is full or has no tools is an
// error, and nothing was written to out. It is closed before Stdio returns.
//
// When ctx ends first, a read of in can be left behind: nothing can interrupt it.
func Stdio(ctx context.Context, in io.Reader, out io.Writer, c Config) error {
	u, err := open(ctx, c.Dial)
	if err != nil {
		return err
	}
	about, instructions := c.describe(ctx, u.client)
	server := c.newServer(about, instructions, func(sdk.Session) *upstream { return u })
	session, err := server.Connect(ctx, lingering{&sdk.IOTransport{
		Reader: io.NopCloser(in), Writer: noClose{out}, MaxLineLength: maxMessage,
	}}, nil)
	if err != nil {
		return errors.Join(err, u.close())
	}
	// Closing waits for the calls that run, so these end first.
	stop := context.AfterFunc(ctx, func() {
		u.interrupt()
		_ = session.Close() // what it says, Wait says too
	})
	defer stop()
	err = session.Wait()
	if ctx.Err() != nil {
		err = nil // told to end
	}
	return errors.Join(err, u.close())
}

// noClose keeps the protocol from closing an output that belongs to the caller.
type noClose struct{ io.Writer }

func (noClose) Close() error { return nil }
