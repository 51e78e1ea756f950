package wsock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
)

// stream builds the bytes of frames and notes where each ends.
type stream struct {
	bytes []byte
	ends  map[int]bool
}

func (s *stream) frame(op byte, fin, masked bool, payload int) {
	if fin {
		op |= 0x80
	}
	var mask byte
	if masked {
		mask = 0x80
	}
	s.bytes = append(s.bytes, op)
	switch {
	case payload < 126:
		s.bytes = append(s.bytes, mask|byte(payload))
	case payload < 1<<16:
		s.bytes = binary.BigEndian.AppendUint16(append(s.bytes, mask|126), uint16(payload))
	default:
		s.bytes = binary.BigEndian.AppendUint64(append(s.bytes, mask|127), uint64(payload))
	}
	if masked {
		s.bytes = append(s.bytes, 1, 2, 3, 4)
	}
	s.bytes = append(s.bytes, bytes.Repeat([]byte{0xFF}, payload)...)
	if s.ends == nil {
		s.ends = map[int]bool{0: true}
	}
	s.ends[len(s.bytes)] = true
}

func TestFrameTracker(t *testing.T) {
	for _, masked := range []bool{false, true} {
		for _, payload := range []int{0, 1, 125, 126, 127, 65_535, 65_536, 70_000} {
			t.Run(fmt.Sprintf("%d bytes, masked %v", payload, masked), func(t *testing.T) {
				var s stream
				s.frame(1, true, masked, payload)
				s.frame(9, true, masked, 0)
				s.frame(2, false, masked, payload)
				next := make([]int, len(s.bytes)) // where the frame that holds this byte ends
				for i, end := len(s.bytes)-1, 0; i >= 0; i-- {
					if s.ends[i+1] {
						end = i + 1
					}
					next[i] = end
				}
				var tracker frameTracker
				for i := range s.bytes {
					if tracker.boundary() != s.ends[i] || tracker.inFrame() == s.ends[i] {
						t.Fatalf("after %d bytes: boundary %v, in a frame %v", i, tracker.boundary(), tracker.inFrame())
					}
					if got := tracker.rest(s.bytes[i:]); got != next[i]-i {
						t.Fatalf("after %d bytes: the frame ends in %d, want %d", i, got, next[i]-i)
					}
					tracker.advance(s.bytes[i : i+1])
				}
				if !tracker.boundary() {
					t.Error("not a boundary at the end")
				}
			})
		}
	}
}

func TestNothingFollowsACloseFrame(t *testing.T) {
	var s stream
	s.frame(opClose, true, true, 2)
	var tracker frameTracker
	tracker.advance(s.bytes)
	if tracker.boundary() || tracker.inFrame() {
		t.Errorf("boundary %v, in a frame %v", tracker.boundary(), tracker.inFrame())
	}
}

func FuzzFrameTracker(f *testing.F) {
	f.Add([]byte{0, 3, 0x81, 126, 0, 127, 1, 255}, []byte{1, 2, 250, 7})
	f.Add([]byte{1, 0, 1, 0}, []byte{0})
	f.Add([]byte{}, []byte{3})
	f.Fuzz(func(t *testing.T, shapes, cuts []byte) {
		// Two bytes make a frame: kind, masking and unit of length; length.
		var s stream
		s.ends = map[int]bool{0: true}
		for len(shapes) >= 2 && len(s.bytes) < 100_000 {
			shape := shapes[0]
			unit := []int{1, 1, 3, 300}[shape>>2&3]
			s.frame([]byte{0, 1, 9, 10}[shape>>4&3], shape&1 != 0, shape&2 != 0, int(shapes[1])*unit)
			shapes = shapes[2:]
		}
		var tracker frameTracker
		at := 0
		for i := 0; at < len(s.bytes); i++ {
			n := 1
			if len(cuts) > 0 {
				n = 1 + int(cuts[i%len(cuts)])*(1+i%50)
			}
			n = min(n, len(s.bytes)-at)
			if rest, want := tracker.rest(s.bytes[at:at+n]), firstEnd(s, at, n); rest != want {
				t.Fatalf("after %d bytes: the frame ends in %d of %d, want %d", at, rest, n, want)
			}
			tracker.advance(s.bytes[at : at+n])
			at += n
			if tracker.boundary() != s.ends[at] {
				t.Fatalf("after %d bytes: boundary %v", at, tracker.boundary())
			}
		}
		if !tracker.boundary() {
			t.Fatal("not a boundary at the end")
		}
	})
}

// firstEnd is how far it is from at to the end of a frame, n at most.
func firstEnd(s stream, at, n int) int {
	for i := 1; i < n; i++ {
		if s.ends[at+i] {
			return i
		}
	}
	return n
}

// gate is a network connection whose writes wait for leave, and that fails once
// it is closed.
type gate struct {
	leave  chan struct{}
	closed chan struct{}
	out    bytes.Buffer
}

func newGate() *gate { return &gate{leave: make(chan struct{}), closed: make(chan struct{})} }

func (g *gate) Read([]byte) (int, error) {
	<-g.closed
	return 0, io.EOF
}

func (g *gate) Write(p []byte) (int, error) {
	select {
	case <-g.leave:
		return g.out.Write(p)
	case <-g.closed:
		return 0, errors.New("closed")
	}
}

func (g *gate) Close() error {
	select {
	case <-g.closed:
	default:
		close(g.closed)
	}
	return nil
}

func (g *gate) String() string { return g.out.String() }

func TestLaneAnswersTheNewestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		g := newGate()
		l := newLane(g, false)
		defer l.Close()
		for _, payload := range []string{"1", "2", "3", ""} {
			l.sendPong([]byte(payload)) // the first gets as far as the network, and waits there
			synctest.Wait()
		}
		l.sendPing()
		l.sendPing()
		synctest.Wait()
		close(g.leave)
		synctest.Wait()
		if want := "\x8a\x011" + "\x8a\x00" + "\x89\x00"; g.String() != want {
			t.Errorf("got %q, want %q", g, want)
		}
	})
}

// The payload of a ping is the library's buffer, which the next frame overwrites.
func TestLaneCopiesThePayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		g := newGate()
		l := newLane(g, false)
		defer l.Close()
		payload := []byte("mine")
		l.sendPong([]byte("x"))
		synctest.Wait()
		l.sendPong(payload)
		copy(payload, "####")
		close(g.leave)
		synctest.Wait()
		if !strings.HasSuffix(g.String(), "\x8a\x04mine") {
			t.Errorf("got %q", g)
		}
	})
}

// Whatever pieces the library writes in, a control frame waits for the end of the
// frame, and then does not wait for the end of the message.
func TestLaneKeepsFramesWhole(t *testing.T) {
	for _, size := range []int{0, 1, 200, PieceSize, 3 * PieceSize} {
		for _, chunk := range []int{1, 7, 4096, 1 << 20} {
			if size/chunk > 5000 {
				continue // the same again, slowly
			}
			t.Run(fmt.Sprintf("frames of %d in chunks of %d", size, chunk), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					leak.Check(t)
					var s stream
					s.frame(1, false, false, size)
					first := len(s.bytes)
					s.frame(0, true, false, size)
					g := newGate()
					close(g.leave)
					l := newLane(g, false)
					defer l.Close()
					for at := 0; at < len(s.bytes); at += chunk {
						part := s.bytes[at:min(at+chunk, len(s.bytes))]
						if n, err := l.Write(part); n != len(part) || err != nil {
							t.Fatalf("wrote %d, %v", n, err)
						}
						if at == 0 {
							l.sendPong([]byte("pong"))
							synctest.Wait()
						}
					}
					pong := "\x8a\x04pong"
					want := string(s.bytes[:first]) + pong + string(s.bytes[first:])
					if first <= chunk { // the ping came behind the first frame, or behind the second
						want = g.String()
						if i := strings.Index(want, pong); i < 0 || !s.ends[i] || want[:i]+want[i+len(pong):] != string(s.bytes) {
							t.Errorf("the pong is at %d", i)
						}
					}
					if g.String() != want {
						t.Errorf("got %d bytes, want the pong after the first frame", g.out.Len())
					}
				})
			})
		}
	}
}

func TestLaneSendsNothingBehindAClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		var s stream
		s.frame(opClose, true, false, 2)
		g := newGate()
		close(g.leave)
		l := newLane(g, false)
		defer l.Close()
		if _, err := l.Write(s.bytes); err != nil {
			t.Fatal(err)
		}
		l.sendPong([]byte("late"))
		l.sendPing()
		synctest.Wait()
		if g.String() != string(s.bytes) {
			t.Errorf("got %q behind the close frame", g.String()[len(s.bytes):])
		}
	})
}

// A client's control frames are masked, each with a key of its own.
func TestLaneMasksForAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		g := newGate()
		close(g.leave)
		l := newLane(g, true)
		defer l.Close()
		keys := map[string]bool{}
		for range 8 {
			g.out.Reset()
			l.sendPong([]byte("payload"))
			synctest.Wait()
			got := g.out.Bytes()
			if len(got) != 2+4+7 || got[0] != 0x8a || got[1] != 0x80|7 {
				t.Fatalf("got %x", got)
			}
			keys[string(got[2:6])] = true
			for i := range got[6:] {
				got[6+i] ^= got[2+i%4]
			}
			if string(got[6:]) != "payload" {
				t.Errorf("unmasked: %q", got[6:])
			}
		}
		if len(keys) < 2 {
			t.Errorf("%d keys for 8 frames", len(keys))
		}
	})
}

func TestLaneCloseFreesAStuckFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		g := newGate()
		l := newLane(g, false)
		l.sendPing()
		written := make(chan error, 1)
		go func() {
			_, err := l.Write([]byte("\x81\x00"))
			written <- err
		}()
		synctest.Wait()
		l.Close()
		if err := <-written; err == nil {
			t.Error("the write succeeded")
		}
		l.sendPong(nil) // nobody is left to send it
		l.Close()
		synctest.Wait()
		if g.out.Len() > 0 {
			t.Errorf("got %q", g)
		}
	})
}

// A timer that fires for a Write of the past does not count for the next one.
func TestGuardForgetsEarlierWrites(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprintf("write timeout %v", limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				g := newGate()
				c := &Conn{lane: newLane(g, false), opts: Options{WriteTimeout: limit}}
				defer c.lane.Close()
				c.guard.conn = c
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 5 {
					c.guard.begin(ctx)
					c.guard.fire() // as if the last one had come late
					time.Sleep(10 * guardAfter)
					c.guard.fire()
					synctest.Wait()
					if cause := c.cause.Load(); cause != nil {
						t.Fatalf("gave up: %v", *cause)
					}
					c.guard.end()
				}
				cancel()
				time.Sleep(time.Minute)
				select {
				case <-g.closed:
					t.Error("the connection was closed after the last write")
				default:
				}
			})
		})
	}
}
