package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// delayed forwards connections to a server and adds the same latency to each
// direction. It limits nothing else: what was sent together arrives together.
type delayed struct {
	l       net.Listener
	to      string
	delay   time.Duration
	running sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func delay(to string, each time.Duration) (*delayed, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delayed{l: l, to: to, delay: each}
	d.running.Go(d.accept)
	return d, nil
}

func (d *delayed) url() string { return "http://" + d.l.Addr().String() }

// close ends all connections and waits for what forwards them.
func (d *delayed) close() {
	d.l.Close()
	d.mu.Lock()
	for _, c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	d.running.Wait()
}

func (d *delayed) accept() {
	for {
		in, err := d.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", d.to)
		if err != nil {
			in.Close()
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, in, out)
		d.mu.Unlock()
		d.running.Go(func() { d.forward(out, in) })
		d.running.Go(func() { d.forward(in, out) })
	}
}

// chunk is what was read, and when it may go on.
type chunk struct {
	data []byte
	due  time.Time
}

func (d *delayed) forward(to io.WriteCloser, from io.ReadCloser) {
	chunks := make(chan chunk, 4096)
	var writer sync.WaitGroup
	writer.Go(func() {
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.data); err != nil {
				from.Close()
			}
		}
		to.Close()
	})
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			chunks <- chunk{buf[:n], time.Now().Add(d.delay)}
		}
		if err != nil {
			break
		}
	}
	close(chunks)
	writer.Wait()
}
