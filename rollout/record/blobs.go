package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// blobs is the folder of the observations that are stored apart. Its name is that of
// the record with ".observations" behind it.
type blobs struct {
	dir   string
	limit int // in bytes; 0 stores none apart
}

const hashPrefix = "sha256:"

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hashPrefix + hex.EncodeToString(sum[:])
}

// isHash keeps a line from naming any other file.
func isHash(text string) bool {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	raw, err := hex.DecodeString(digits)
	return ok && err == nil && len(raw) == sha256.Size
}

func storeOf(path string, limit int) *blobs { return &blobs{dir: path + ".observations", limit: limit} }

func (s *blobs) file(hash string) string {
	return filepath.Join(s.dir, strings.TrimPrefix(hash, hashPrefix)+".json")
}

// put stores an observation that is not there yet. It is whole or not there.
func (s *blobs) put(hash string, observation []byte) error {
	name := s.file(hash)
	if info, err := os.Stat(name); err == nil && info.Size() == int64(len(observation)) {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o777); err != nil { //nolint:gosec // G301: the umask decides, as for the record
		return fmt.Errorf("store observation: %w", err)
	}
	f, err := os.CreateTemp(s.dir, ".new-*")
	if err != nil {
		return fmt.Errorf("store observation: %w", err)
	}
	_, err = f.Write(observation)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("store observation: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// get reads an observation and checks that it is what its name says.
func (s *blobs) get(hash string) ([]byte, error) {
	observation, err := os.ReadFile(s.file(hash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("observation %s is missing: %w", hash, err)
	}
	if err != nil {
		return nil, fmt.Errorf("observation %s: %w", hash, err)
	}
	if hashOf(observation) != hash {
		return nil, fmt.Errorf("observation %s is damaged: its file %s has other content", hash, s.file(hash))
	}
	return observation, nil
}
