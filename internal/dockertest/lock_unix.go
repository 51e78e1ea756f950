//go:build unix

package dockertest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

type lockMode int

const (
	shared       lockMode = syscall.LOCK_SH
	exclusive    lockMode = syscall.LOCK_EX
	exclusiveNow lockMode = syscall.LOCK_EX | syscall.LOCK_NB
)

// lock takes a lock that the kernel gives back when the process ends, however it does.
func lock(dir, name string, how lockMode) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), int(how))
		if err != syscall.EINTR { //nolint:errorlint // an error number of the kernel
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { _ = f.Close() }, nil
}

// usersFile is the lock that the users of an engine share.
func usersFile(host string, own bool) string {
	if own {
		return "users"
	}
	return fmt.Sprintf("users-%x", sha256.Sum256([]byte(host)))[:20]
}

func ownedByUs(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is somebody else's", dir)
	}
	return nil
}
