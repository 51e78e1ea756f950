package process

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// reserve holds the wanted port, or a free one for 0.
func reserve(ctx context.Context, wanted int) (*port, error) {
	if wanted != 0 {
		// The reservation alone would not notice a listener of another address family.
		if _, err := probe(ctx, wanted); err != nil {
			return nil, err
		}
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("port: %w", os.NewSyscallError("socket", err))
	}
	hold := os.NewFile(uintptr(fd), "port")
	number, err := bind(fd, wanted)
	if err != nil {
		_ = hold.Close() // nothing was written to it
		return nil, fmt.Errorf("port: %w", err)
	}
	return &port{number: number, hold: hold}, nil
}

func bind(fd, wanted int) (int, error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: wanted, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	inet, ok := address.(*syscall.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("socket has an address of type %T", address)
	}
	return inet.Port, nil
}
