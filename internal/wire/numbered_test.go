package wire_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/openenv-go/openenv/internal/wire"
)

func TestParseNumbered(t *testing.T) {
	for _, tt := range []struct {
		frame string
		plain string
		id    uint64
		ms    int64
		err   error
	}{
		{frame: `{"id":7,"type":"step","data":{"id":8}}`, plain: `{"type":"step","data":{"id":8}}`, id: 7, ms: wire.NoTime},
		{frame: `{"id":7,"ms":1500,"type":"state"}`, plain: `{"type":"state"}`, id: 7, ms: 1500},
		{frame: `{"id":7,"ms":0,"type":"state"}`, plain: `{"type":"state"}`, id: 7, ms: 0},
		{frame: `{"id":18446744073709551615,"type":"close"}`, plain: `{"type":"close"}`, id: math.MaxUint64, ms: wire.NoTime},
		{frame: `{"id":1,"ms":9223372036854,"type":"close"}`, plain: `{"type":"close"}`, id: 1, ms: 9223372036854},
		{frame: `{"id":1,`, plain: `{`, id: 1, ms: wire.NoTime},
		{frame: `{"id":1,nonsense`, plain: `{nonsense`, id: 1, ms: wire.NoTime},
		{frame: `{"id":1,"type":"state","ms":5}`, plain: `{"type":"state","ms":5}`, id: 1, ms: wire.NoTime},

		{frame: ``, err: wire.ErrNotNumbered},
		{frame: `{}`, err: wire.ErrNotNumbered},
		{frame: `{"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"type":"state","id":7}`, err: wire.ErrNotNumbered},
		{frame: `{"id":7}`, err: wire.ErrNotNumbered},
		{frame: `{"id":7`, err: wire.ErrNotNumbered},
		{frame: `{"id":`, err: wire.ErrNotNumbered},
		{frame: `{"id":,"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"id":0,"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"id":07,"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"id":-7,"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"id":7.5,"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"id":"7","type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"id": 7,"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: ` {"id":7,"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"id":18446744073709551616,"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"id":99999999999999999999999,"type":"state"}`, err: wire.ErrNotNumbered},
		{frame: `{"id":7,"ms":5}`, err: wire.ErrNotNumbered},
		{frame: `{"id":7,"ms":,"type":"state"}`, err: wire.ErrBadTime},
		{frame: `{"id":7,"ms":-5,"type":"state"}`, err: wire.ErrBadTime},
		{frame: `{"id":7,"ms":05,"type":"state"}`, err: wire.ErrBadTime},
		{frame: `{"id":7,"ms":9223372036855,"type":"state"}`, err: wire.ErrBadTime},
	} {
		frame := []byte(tt.frame)
		plain, id, ms, err := wire.ParseNumbered(frame)
		if !errors.Is(err, tt.err) || string(plain) != tt.plain || err == nil && (id != tt.id || ms != tt.ms) {
			t.Errorf("%s: %q, id %d, ms %d, %v", tt.frame, plain, id, ms, err)
		}
		if err != nil && string(frame) != tt.frame {
			t.Errorf("%s was changed to %s", tt.frame, frame)
		}
	}
}

// Numbers cost no allocation on either way.
func TestNumbersAllocateNothing(t *testing.T) {
	frame, scratch := []byte(nil), make([]byte, 0, 100)
	rest := []byte(`"type":"step","data":{}}`)
	n := testing.AllocsPerRun(100, func() {
		frame = append(wire.AppendNumber(scratch, math.MaxUint64, 1500), rest...)
		if _, id, ms, err := wire.ParseNumbered(frame); err != nil || id != math.MaxUint64 || ms != 1500 {
			t.Fatal(id, ms, err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is parsed is what was appended, byte by byte, and nothing else is taken.
func FuzzParseNumbered(f *testing.F) {
	for _, frame := range []string{
		``, `{"id":7,"type":"step","data":{}}`, `{"id":7,"ms":1500,"type":"step","data":{}}`, `{"id":0,"type":"state"}`,
		`{"id":18446744073709551616,"type":"state"}`, `{"id":7,"ms":9223372036855,"type":"state"}`, `{"id":07,"ms":,`, `{"type":"state"}`,
	} {
		f.Add([]byte(frame))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		before := bytes.Clone(frame)
		plain, id, ms, err := wire.ParseNumbered(frame)
		if err != nil {
			if !bytes.Equal(frame, before) {
				t.Fatalf("%q was changed to %q", before, frame)
			}
			return
		}
		if id == 0 || plain[0] != '{' {
			t.Fatalf("%q: id %d, plain %q", before, id, plain)
		}
		if again := append(wire.AppendNumber(nil, id, ms), plain[1:]...); !bytes.Equal(again, before) {
			t.Fatalf("%q was taken for %q", before, again)
		}
	})
}
