package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
)

func TestKinds(t *testing.T) {
	connect := func(err error) error { return &openenv.ConnectError{Op: "connect", Err: err} }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&openenv.ServerError{Code: openenv.CodeCapacityReached}, "capacity_reached"},
		{connect(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), "refused"},
		{connect(os.NewSyscallError("socket", syscall.EMFILE)), "no descriptors"},
		{connect(os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)), "no ports"},
		{connect(context.DeadlineExceeded), "timeout"},
		{connect(errors.New("x")), "not connected"},
		{fmt.Errorf("step: %w", openenv.ErrMessageTimeout), "timeout"},
		{&openenv.SessionLostError{Cause: io.EOF}, "session lost"},
		{&openenv.DecodeError{Err: io.EOF}, "bad reply"},
		{context.Canceled, "cancelled"},
		{io.EOF, "other"},
	} {
		if got := kindOf(tt.err); got != tt.want {
			t.Errorf("%v is of kind %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestLatency(t *testing.T) {
	r := newRecorder()
	for ms := 1; ms <= 1000; ms++ {
		r.add(time.Duration(ms) * time.Millisecond)
	}
	near := func(got, want float64) bool { return got >= want && got <= want*1.001+0.001 }
	l := r.latency()
	if l.Count != 1000 || !near(l.P50, 500) || !near(l.P90, 900) || !near(l.P99, 990) || !near(l.P999, 999) || !near(l.Max, 1000) {
		t.Errorf("got %+v", l)
	}
	r = newRecorder()
	r.add(0)
	r.add(24 * time.Hour)
	if l := r.latency(); l.Count != 2 || l.Max < longest.Seconds()*1e3 {
		t.Errorf("out of the range: %+v", l)
	}
}

func TestListenerIsFound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are seen on Linux alone")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for url, want := range map[string]int{
		"http://127.0.0.1:" + port:        os.Getpid(),
		"ws://localhost:" + port + "/env": os.Getpid(),
		"http://192.0.2.1:" + port:        0, // another machine's
		"http://127.0.0.1":                0,
		"%":                               0,
	} {
		if got := listener(url); got != want {
			t.Errorf("%s: process %d, want %d", url, got, want)
		}
	}
}

func TestProcessIsMeasured(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are measured on Linux alone")
	}
	before := cpuOf(os.Getpid())
	for begin := time.Now(); cpuOf(os.Getpid())-before < 20*time.Millisecond; {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("time went by and none was spent")
		}
	}
	if m := memoryOf(os.Getpid()); m < 1<<20 {
		t.Errorf("this process has %d bytes", m)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if cpuOf(gone.Process.Pid) != 0 || memoryOf(gone.Process.Pid) != 0 {
		t.Error("a process that is gone uses something")
	}
}

func TestSourcesGrowWithTheSessions(t *testing.T) {
	for sessions, want := range map[int]int{1: 1, 4095: 1, 4096: 2, 16384: 5, 10_000_000: maxSources} {
		if got := (&Plan{Sessions: sessions}).sources(); got != want {
			t.Errorf("%d sessions: %d addresses, want %d", sessions, got, want)
		}
	}
	for _, url := range []string{"http://[::1]:80", "http://192.0.2.1:80", "http://localhost:80", "%"} {
		if sourceTransport(url, 4) != nil {
			t.Errorf("%s is dialled from another address", url)
		}
	}
}
