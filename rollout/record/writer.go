package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// DefaultObservationLimit is the size in bytes over which an observation is stored
// apart.
const DefaultObservationLimit = 64 << 10

// Writer appends episodes to a file. It is safe for concurrent use.
type Writer struct {
	path  string
	store *blobs

	mu       sync.Mutex
	f        *os.File
	size     int64
	err      error // after which nothing is written
	buf      line
	finished map[int]bool
}

// Create begins a file, which must not exist (fs.ErrExist). Observations over limit
// bytes are stored apart; 0 is no limit. Whoever made the writer closes it.
func Create(path string, h Header, limit int) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o666) //nolint:gosec // G302: the umask decides
	if err != nil {
		return nil, fmt.Errorf("create record: %w", err)
	}
	w := newWriter(path, f, limit)
	if err := w.begin(h); err != nil {
		return nil, errors.Join(fmt.Errorf("create record: %w", err), w.Close())
	}
	return w, nil
}

// Resume goes on with a file, or begins it when there is none. The cut end of a line
// is removed first, so that the file may have been cut at any byte. A file with
// another identity is an *IdentityError, one that is no record a *CorruptError, and
// neither is changed.
func Resume(path string, h Header, limit int) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Create(path, h, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("resume record: %w", err)
	}
	w := newWriter(path, f, limit)
	if err := w.resume(h); err != nil {
		return nil, errors.Join(fmt.Errorf("resume record: %w", err), w.Close())
	}
	return w, nil
}

func newWriter(path string, f *os.File, limit int) *Writer {
	return &Writer{path: path, store: storeOf(path, limit), f: f, finished: map[int]bool{}}
}

func (w *Writer) begin(h Header) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.Version = Version
	w.buf.Reset()
	if err := w.buf.header(&h); err != nil {
		return err
	}
	return w.flush()
}

// resume reads what there is and cuts off what is not whole.
func (w *Writer) resume(h Header) error {
	began, err := w.read(h)
	if err != nil {
		return err
	}
	if !began && !w.cutHeader(h) {
		return &CorruptError{w.path, 1, 0, errors.New("file has no header: it is no record")}
	}
	if err := w.f.Truncate(w.size); err != nil {
		return err
	}
	if !began {
		return w.begin(h)
	}
	return nil
}

// read goes through the lines and leaves the end of the last whole one in size.
func (w *Writer) read(h Header) (began bool, err error) {
	for l, err := range scan(w.path, w.f) {
		switch {
		case err != nil:
			return began, err
		case l.Header != nil:
			if err := sameRun(w.path, l.Header, &h); err != nil {
				return began, err
			}
			began = true
		case l.Episode != nil:
			w.finished[l.Episode.Index] = l.Episode.Ending.Whole()
		}
		w.size = l.end
	}
	return began, nil
}

// cutHeader reports that a file without a line is a header that was cut, and not a
// file of somebody else's.
func (w *Writer) cutHeader(h Header) bool {
	var whole line
	h.Version = Version
	if whole.header(&h) != nil {
		return false
	}
	const opening = `{"openenv_record":`
	there := make([]byte, len(opening))
	n, err := w.f.ReadAt(there, 0)
	return (err == nil || errors.Is(err, io.EOF)) && string(there[:n]) == opening[:n]
}

func sameRun(path string, there, here *Header) error {
	switch {
	case there.Kind != here.Kind:
		return &IdentityError{path, []string{fmt.Sprintf("kind: %s there, %s here", there.Kind, here.Kind)}}
	case there.Identity == nil || here.Identity == nil:
		return &IdentityError{path, []string{"identity: only rollouts have one and can be resumed"}}
	}
	if found := there.Identity.Differences(*here.Identity); len(found) > 0 {
		return &IdentityError{path, found}
	}
	return nil
}

// Finished reports that the file had a whole episode of that number when it was
// opened.
func (w *Writer) Finished(number int) bool { return w.finished[number] }

// Write appends an episode, as one write. When it returns nil the line is in the hands
// of the operating system: the death of this process cannot take it away. After an
// error the file has the lines that it had.
func (w *Writer) Write(e *Episode) error {
	return w.append(func() error { return w.buf.episode(e, w.store) })
}

// WriteHTTP appends an HTTP exchange.
func (w *Writer) WriteHTTP(x *HTTP) error {
	return w.append(func() error { w.buf.http(x); return nil })
}

func (w *Writer) append(build func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Reset()
	if w.buf.Cap() > maxBuffer {
		w.buf = line{}
	}
	err := w.err
	if err == nil {
		err = build()
	}
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		return fmt.Errorf("write record %s: %w", w.path, err)
	}
	return nil
}

// maxBuffer is the largest line whose memory is kept for the next.
const maxBuffer = 1 << 20

// flush writes the buffer. What a write that failed half-way has left is cut off.
func (w *Writer) flush() error {
	n, err := w.f.Write(w.buf.Bytes())
	if err == nil {
		w.size += int64(n)
		return nil
	}
	if n > 0 {
		if undo := w.f.Truncate(w.size); undo != nil {
			w.err = errors.Join(err, undo)
			return w.err
		}
	}
	return err
}

// Close ends the file, on the disk. The writer is not used afterwards.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fs.ErrClosed
	}
	return errors.Join(w.f.Sync(), w.f.Close())
}
