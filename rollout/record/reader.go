package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// CorruptError is a line that is whole and cannot be read.
type CorruptError struct {
	Path   string
	Line   int   // from 1
	Offset int64 // of the line's first byte
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: line %d, at byte %d: %v", e.Path, e.Line, e.Offset, e.Err)
}
func (e *CorruptError) Unwrap() error { return e.Err }

// Lines reads a file from its beginning. A last line without its newline is one that
// is being written, or was cut, and is passed over. A line that cannot be read is a
// *CorruptError, and the end.
func Lines(path string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer func() { _ = f.Close() }() // it was only read
		for l, err := range scan(path, f) {
			if !yield(l.Line, err) || err != nil {
				return
			}
		}
	}
}

// place is a line and where it ends.
type place struct {
	Line

	end int64
}

// scan reads lines and says where each ends.
func scan(path string, from io.Reader) iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		store := storeOf(path, 0)
		r := bufio.NewReaderSize(from, 64<<10)
		offset, began := int64(0), false
		for number := 1; ; number++ {
			text, err := r.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(place{}, fmt.Errorf("%s: %w", path, err))
				return
			}
			l, err := parse(bytes.TrimSuffix(text, []byte("\n")), store)
			if err == nil && !began && l.Header == nil {
				err = errors.New("no header comes before it: this is no record")
			}
			if err != nil {
				yield(place{}, &CorruptError{path, number, offset, err})
				return
			}
			began = true
			offset += int64(len(text))
			if !yield(place{l, offset}, nil) {
				return
			}
		}
	}
}

// File is what a file holds.
type File struct {
	Path   string
	Header Header // the first
	// Episodes are in the order of their numbers. Of lines with the same number the
	// last counts: an episode that was cancelled was played again.
	Episodes []*Episode
	HTTP     []*HTTP // in the order of the file
}

// Load reads a whole file. A file of another format is a *CorruptError.
func Load(path string) (*File, error) {
	file := &File{Path: path}
	byNumber := map[int]*Episode{}
	began := false
	for l, err := range Lines(path) {
		switch {
		case err != nil:
			return nil, err
		case l.Header != nil && !began:
			file.Header, began = *l.Header, true
		case l.Episode != nil:
			byNumber[l.Episode.Index] = l.Episode
		case l.HTTP != nil:
			file.HTTP = append(file.HTTP, l.HTTP)
		}
	}
	if !began {
		return nil, &CorruptError{path, 1, 0, errors.New("file has no header: it is empty, or no record")}
	}
	for _, e := range byNumber {
		file.Episodes = append(file.Episodes, e)
	}
	slices.SortFunc(file.Episodes, func(a, b *Episode) int { return a.Index - b.Index })
	return file, nil
}

// Episode returns the episode of that number, or an error that says which there are.
func (f *File) Episode(number int) (*Episode, error) {
	i, ok := slices.BinarySearchFunc(f.Episodes, number, func(e *Episode, n int) int { return e.Index - n })
	if ok {
		return f.Episodes[i], nil
	}
	if len(f.Episodes) == 0 {
		return nil, fmt.Errorf("%s has no episodes", f.Path)
	}
	return nil, fmt.Errorf("%s has no episode %d; it has %d, from %d to %d", f.Path, number, len(f.Episodes), f.Episodes[0].Index, f.Episodes[len(f.Episodes)-1].Index)
}
