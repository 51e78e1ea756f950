package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/mcp"
)

// space is a directory that no path leads out of: os.Root holds that for every step of
// a path, symbolic links included.
type space struct{ root *os.Root }

type (
	// ListInput asks for what is in a directory.
	ListInput struct {
		Path string `json:"path,omitempty" jsonschema:"directory, relative to the root; the root when empty"`
	}
	// Entry is a file or a directory.
	Entry struct {
		Name  string `json:"name"`
		IsDir bool   `json:"is_dir"`
		Size  int64  `json:"size"` // bytes, of a file
	}
	// Listing is what is in a directory, in the order of names.
	Listing struct {
		Entries   []Entry `json:"entries"`
		Truncated bool    `json:"truncated"` // there are more than MaxListed
	}

	// ReadInput names the file to read.
	ReadInput struct {
		Path string `json:"path" jsonschema:"file, relative to the root"`
	}
	// Content is a text file.
	Content struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}

	// WriteInput is a file to write.
	WriteInput struct {
		Path string `json:"path" jsonschema:"file, relative to the root; its directories are made"`
		Text string `json:"text" jsonschema:"the whole content, which replaces what is there"`
	}
	// Written says what was written.
	Written struct {
		Path  string `json:"path"`
		Bytes int    `json:"bytes"`
	}

	// SearchInput is a text to look for.
	SearchInput struct {
		Text string `json:"text"           jsonschema:"what to look for, as it is spelled"`
		Path string `json:"path,omitempty" jsonschema:"directory to look in, with those below; the root when empty"`
	}
	// Hit is one line with the text.
	Hit struct {
		Path string `json:"path"`
		Line int    `json:"line"` // from 1
		Text string `json:"text"`
	}
	// Hits are the lines found, by path and line.
	Hits struct {
		Hits      []Hit `json:"hits"`
		Truncated bool  `json:"truncated"` // there are more than MaxHits
	}
)

// register makes the four tools.
func (s *space) register(server *sdk.Server) error {
	readOnly := &sdk.ToolAnnotations{ReadOnlyHint: true}
	return errors.Join(
		tool(server, "list", "List a directory.", readOnly, s.list),
		tool(server, "read", "Read a text file.", readOnly, s.read),
		tool(server, "write", "Write a text file.", nil, s.write),
		tool(server, "search", "Find a text in all text files.", readOnly, s.search),
	)
}

func tool[In, Out any](server *sdk.Server, name, description string, hints *sdk.ToolAnnotations, f func(context.Context, In) (Out, error)) error {
	return mcp.AddTool(server, &sdk.Tool{Name: name, Description: description, Annotations: hints},
		func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
			out, err := f(ctx, in)
			return nil, out, err
		})
}

// orRoot is the directory of an optional path.
func orRoot(name string) string {
	if name == "" {
		return "."
	}
	return name
}

func (s *space) list(_ context.Context, in ListInput) (Listing, error) {
	out := Listing{Entries: []Entry{}}
	if _, err := s.root.Stat(orRoot(in.Path)); err != nil {
		return out, err
	}
	entries, err := fs.ReadDir(s.root.FS(), cleanFS(in.Path))
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		if len(out.Entries) == MaxListed {
			out.Truncated = true
			break
		}
		item := Entry{Name: e.Name(), IsDir: e.IsDir()}
		if info, err := e.Info(); err == nil && !e.IsDir() {
			item.Size = info.Size()
		}
		out.Entries = append(out.Entries, item)
	}
	return out, nil
}

// cleanFS spells a path that os.Root has accepted as io/fs wants it.
func cleanFS(name string) string { return path.Clean(orRoot(name)) }

func (s *space) read(_ context.Context, in ReadInput) (Content, error) {
	text, err := s.text(in.Path)
	if err != nil {
		return Content{}, err
	}
	return Content{Path: in.Path, Text: text}, nil
}

// errNotText is a file that JSON cannot carry.
var errNotText = errors.New("not a text in UTF-8")

func (s *space) text(name string) (string, error) {
	f, err := s.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	switch info, err := f.Stat(); {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: not a file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > MaxFile:
		return "", fmt.Errorf("%s: larger than %d bytes", name, MaxFile)
	case !utf8.Valid(text):
		return "", fmt.Errorf("%s: %w", name, errNotText)
	}
	return string(text), nil
}

func (s *space) write(_ context.Context, in WriteInput) (Written, error) {
	if len(in.Text) > MaxFile {
		return Written{}, fmt.Errorf("%s: larger than %d bytes", in.Path, MaxFile)
	}
	if err := s.room(in.Path, int64(len(in.Text))); err != nil {
		return Written{}, err
	}
	if dir := path.Dir(path.Clean(in.Path)); dir != "." {
		if err := s.root.MkdirAll(dir, 0o700); err != nil {
			return Written{}, err
		}
	}
	if err := s.root.WriteFile(in.Path, []byte(in.Text), 0o600); err != nil {
		return Written{}, err
	}
	return Written{Path: in.Path, Bytes: len(in.Text)}, nil
}

// room reports an error when a file of that size would be too much.
func (s *space) room(name string, size int64) error {
	count, total := 0, size
	err := fs.WalkDir(s.root.FS(), ".", func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		count++
		if info, err := e.Info(); err == nil && !e.IsDir() && at != path.Clean(name) {
			total += info.Size()
		}
		return nil
	})
	depth := strings.Count(path.Clean(name), "/") + 1 // what the path itself may add
	switch {
	case err != nil:
		return err
	case count-1+depth > MaxFiles:
		return fmt.Errorf("%s: there may be no more than %d files and directories", name, MaxFiles)
	case total > MaxTotal:
		return fmt.Errorf("%s: all files together may have no more than %d bytes", name, MaxTotal)
	}
	return nil
}

func (s *space) search(ctx context.Context, in SearchInput) (Hits, error) {
	out := Hits{Hits: []Hit{}}
	if in.Text == "" {
		return out, errors.New("no text to look for")
	}
	if _, err := s.root.Stat(orRoot(in.Path)); err != nil {
		return out, err
	}
	err := fs.WalkDir(s.root.FS(), cleanFS(in.Path), func(at string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case !e.Type().IsRegular():
			return nil
		}
		text, err := s.text(at)
		if errors.Is(err, errNotText) {
			return nil
		}
		if err != nil {
			return err
		}
		return out.add(at, text, in.Text)
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return out, err
}

// add looks for the text in one file. It ends the search when there are enough hits.
func (h *Hits) add(name, text, want string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if !strings.Contains(line, want) {
			continue
		}
		if len(h.Hits) == MaxHits {
			h.Truncated = true
			return fs.SkipAll
		}
		h.Hits = append(h.Hits, Hit{Path: name, Line: n, Text: strings.TrimRight(line, "\r\n")})
	}
	return nil
}
