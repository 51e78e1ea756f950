package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/openenv-go/openenv/internal/wire"
)

// level has text as its JSON form, also as the key of a map.
type level int

func (l level) MarshalText() ([]byte, error) { return []byte("level " + strconv.Itoa(int(l))), nil }
func (l *level) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(string(bytes.TrimPrefix(b, []byte("level "))))
	*l = level(n)
	return err
}

// pair marshals by value, boxed by pointer only.
type pair struct{ a, b int }

func (p pair) MarshalJSON() ([]byte, error)  { return json.Marshal([]int{p.a, p.b}) }
func (p *pair) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &[]*int{&p.a, &p.b}) }

type boxed struct{ N int }

func (b *boxed) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]int{"boxed": b.N}) }

type (
	// inner is embedded, as shared parts of observations are.
	inner struct {
		ID     string `json:"id"`
		hidden int
	}
	node struct {
		Value int   `json:"value"`
		Next  *node `json:"next,omitempty"`
	}
	everything struct {
		inner
		*node
		Empty    string            `json:"empty,omitempty"`
		Zero     int               `json:"zero,omitempty"`
		False    bool              `json:"false,omitempty"`
		List     []int             `json:"list"`
		Some     []string          `json:"some,omitempty"`
		NoMap    map[string]int    `json:"no_map"`
		Map      map[string]int    `json:"map,omitempty"`
		Struct   node              `json:"struct,omitempty"` //nolint:modernize // has no effect, and must have none
		Array    [2]bool           `json:"array,omitempty"`
		When     time.Time         `json:"when,omitempty"` //nolint:modernize // has no effect, and must have none
		WhenZero time.Time         `json:"when_zero,omitzero"`
		Wait     time.Duration     `json:"wait"`
		Bytes    []byte            `json:"bytes"`
		Block    [3]byte           `json:"block"`
		Quoted   int64             `json:"quoted,string"`
		QuotedB  bool              `json:"quoted_b,string"`
		QuotedS  string            `json:"quoted_s,string"`
		Number   json.Number       `json:"number"`
		NumberP  *json.Number      `json:"number_p"`
		NumberS  json.Number       `json:"number_s,string"`
		NumberO  json.Number       `json:"number_o,omitempty"`
		Raw      json.RawMessage   `json:"raw"`
		RawO     json.RawMessage   `json:"raw_o,omitempty"`
		Pair     pair              `json:"pair"`
		PairP    *pair             `json:"pair_p"`
		Boxed    boxed             `json:"boxed"`
		BoxedP   *boxed            `json:"boxed_p"`
		Level    level             `json:"level"`
		Levels   map[level]float32 `json:"levels"`
		ByInt    map[int]string    `json:"by_int"`
		Addr     netip.Addr        `json:"addr"`
		Big      *big.Int          `json:"big"`
		Any      any               `json:"any"`
		Ignored  int               `json:"-"`
		NoTag    float32
		Ugly     string `json:"ugly name!"`
	}
)

// Users' types are encoded as encoding/json encodes them, except that markup
// stays readable.
func TestEncodesLikeEncodingJSON(t *testing.T) {
	full := everything{
		inner: inner{"i", 1}, node: &node{1, &node{2, nil}}, Empty: "e", Zero: 1, False: true, List: []int{}, Some: []string{""}, NoMap: map[string]int{}, Map: map[string]int{"b": 1, "a": 2},
		Struct: node{3, nil}, When: time.Date(2025, 1, 2, 3, 4, 5, 6, time.UTC), WhenZero: time.Unix(1, 0).UTC(), Wait: time.Second, Bytes: []byte("hi"),
		Block: [3]byte{1, 2, 3}, Quoted: -5, QuotedB: true, QuotedS: `q"`, Number: "1.50", NumberP: new(json.Number("2e3")), NumberS: "7", NumberO: "0",
		Raw: json.RawMessage(` {"a" : [ 1.0 ]} `), Pair: pair{1, 2}, PairP: &pair{3, 4}, Boxed: boxed{5}, BoxedP: &boxed{6}, Level: 7, Levels: map[level]float32{2: 0.1, 10: 1e30},
		ByInt: map[int]string{10: "x", 9: "y"}, Addr: netip.MustParseAddr("::1"), Big: big.NewInt(0).Lsh(big.NewInt(1), 100), Any: []any{1, "x", nil, map[string]any{"n": json.Number("1.0")}}, Ignored: 2, NoTag: 0.1, Ugly: "u",
	}
	for _, test := range []struct {
		name  string
		value any
	}{
		{"zero struct", everything{}},
		{"full struct", full},
		{"full struct by pointer", &full},
		{"nil slice", []int(nil)},
		{"nil map", map[string]int(nil)},
		{"nil in any", []any{nil, (*int)(nil), []string(nil), map[string]any(nil)}},
		{"floats", []float64{0, 1, -1, 0.1, 1e20, 1e21, 1e-6, 1e-7, math.MaxFloat64, math.Copysign(0, -1)}},
		{"narrow floats", []float32{0.1, 1e20, 1e21, 1e-7}},
		{"wide integers", []any{int64(math.MaxInt64), uint64(math.MaxUint64), int8(-1)}},
		{"numbers in maps", map[string]any{"a": json.Number(""), "b": json.Number("-0.0"), "c": []json.Number{"1", "2.0"}}},
		{"numbers as keys", map[json.Number]int{"1.0": 1, "x": 2}},
		{"keys in order", map[string]int{"z": 1, "a": 2, "é": 3, "B": 4}},
		{"text keys in order", map[level]int{10: 1, 2: 2}},
		{"control characters", "\x00\b\f\n\r\t\"\\/\x7f"},
		{"values that marshal by pointer", []boxed{{1}}},
		{"such a value alone", boxed{1}},
		{"such a value in a map", map[string]boxed{"a": {1}}},
		{"interface with methods", struct{ E json.Marshaler }{pair{1, 2}}},
		{"nil interface with methods", struct{ E json.Marshaler }{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(test.value); err != nil {
				t.Fatal(err)
			}
			got, err := wire.Marshal(test.value)
			if err != nil || string(got) != string(bytes.TrimSpace(want.Bytes())) {
				t.Errorf("got\n%s, %v, want\n%s", got, err, &want)
			}
		})
	}
}

func TestEncodingErrorsLikeEncodingJSON(t *testing.T) {
	for name, value := range map[string]any{
		"NaN": math.NaN(), "infinity": []float32{float32(math.Inf(1))}, "channel": make(chan int), "function": struct{ F func() }{func() {}}, "complex": complex(1, 2),
		"bad number": json.Number("1."), "bad raw": json.RawMessage("{"), "key": map[pair]int{{1, 2}: 3},
	} {
		_, want := json.Marshal(value)
		if got, err := wire.Marshal(value); err == nil || want == nil {
			t.Errorf("%s: got %s, %v, encoding/json says %v", name, got, err, want)
		}
	}
}

// Users' types are decoded as encoding/json decodes them.
func TestDecodesLikeEncodingJSON(t *testing.T) {
	object := func() any { return new(everything) }
	untyped := func() any { return new(any) }
	for _, test := range []struct {
		name, text string
		into       func() any
	}{
		{"names in any case", `{"ID":"i","EMPTY":"e","nOtAg":0.1}`, object},
		{"unknown names", `{"nope":{"a":[1,2]},"id":"i"}`, object},
		{"null everywhere", `{"id":null,"list":null,"no_map":null,"when":null,"bytes":null,"quoted":null,"number":null,"number_p":null,"raw":null,"pair_p":null,"any":null,"big":null}`, object},
		{"empty list and map", `{"list":[],"no_map":{},"some":[]}`, object},
		{"array too short", `{"array":[true]}`, object},
		{"array too long", `{"array":[true,true,true],"block":[1,2,3,4]}`, object},
		{"base64", `{"bytes":"aGk="}`, object},
		{"base64 with a line break", `{"bytes":"aG\nk="}`, object},
		{"quoted", `{"quoted":"-5","quoted_b":"true","quoted_s":"\"q\""}`, object},
		{"not quoted", `{"quoted":-5}`, object},
		{"duration", `{"wait":1000000000}`, object},
		{"duration as text", `{"wait":"1s"}`, object},
		{"time", `{"when":"2025-01-02T03:04:05.000000006Z"}`, object},
		{"bad time", `{"when":"yesterday"}`, object},
		{"numbers", `{"number":1.50,"number_p":2e3,"number_s":"7"}`, object},
		{"number as text", `{"number":"1.50"}`, object},
		{"no number as text", `{"number":"x"}`, object},
		{"number that is a list", `{"number":[1]}`, object},
		{"raw", `{"raw": {"a" : [ 1.0 ]} }`, object},
		{"own decoding", `{"pair":[1,2],"pair_p":[3,4],"level":"level 7","levels":{"level 2":0.5},"addr":"::1","big":1267650600228229401496703205376}`, object},
		{"own decoding refuses", `{"level":"high"}`, object},
		{"integer keys", `{"by_int":{"9":"y","10":"x"}}`, object},
		{"a key that is no integer", `{"by_int":{"x":"y"}}`, object},
		{"embedded pointer", `{"value":1,"next":{"value":2}}`, object},
		{"fraction for an integer", `{"zero":1.5}`, object},
		{"integer with an exponent", `{"zero":1e2}`, object},
		{"integer too large", `{"zero":9223372036854775808}`, object},
		{"string for an integer", `{"zero":"1"}`, object},
		{"integer for a string", `{"id":1}`, object},
		{"list for an object", `[]`, object},
		{"null for an object", `null`, object},
		{"any", `[null,true,1,1.5,"s",[],{}]`, untyped},
		{"any too large", `1e400`, untyped},
		{"two values", `{} {}`, untyped},
		{"a comma too many", `[1,]`, untyped},
		{"a comment", `[1 /* one */]`, untyped},
		{"single quotes", `'x'`, untyped},
		{"control character", "\"\n\"", untyped},
		{"nothing", ``, untyped},
		{"numbers by key", `{"1.0":1}`, func() any { return new(map[json.Number]int) }},
		{"interface with methods", `{"E":1}`, func() any { return new(struct{ E error }) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, got := test.into(), test.into()
			wantErr := json.Unmarshal([]byte(test.text), want)
			err := wire.Unmarshal([]byte(test.text), got, wire.Float64)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("got %v, encoding/json says %v", err, wantErr)
			}
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%+v, want\n%+v", got, want)
			}
		})
	}
}

// What encoding/json repairs in silence is refused: it may mean two things.
func TestRefusesAmbiguousText(t *testing.T) {
	for name, text := range map[string]string{
		"a key twice":             `{"a":1,"a":2}`,
		"a key twice, escaped":    `{"a":1,"\u0061":2}`,
		"a key twice, deep":       `[{"x":{"a":1,"a":1}}]`,
		"invalid UTF-8":           "\"\xff\"",
		"invalid UTF-8 in a key":  "{\"\xff\":1}",
		"half a surrogate pair":   `"\udc00"`,
		"surrogates out of order": `"\udc00\ud800"`,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s: encoding/json refuses it, too: %v", name, err)
		}
		for _, numbers := range []wire.Numbers{wire.Float64, wire.JSONNumber} {
			if err := wire.Unmarshal([]byte(text), &v, numbers); err == nil {
				t.Errorf("%s: got %v, want an error", name, v)
			}
		}
	}
	var same struct{ A int }
	if err := wire.Unmarshal([]byte(`{"a":1,"A":2}`), &same, wire.Float64); err == nil {
		t.Errorf("one field by two spellings: got %+v, want an error", same)
	}
	if b, err := wire.Marshal("\xff"); err == nil {
		t.Errorf("invalid UTF-8 was written as %s", b)
	}
	if err := wire.Unmarshal([]byte(`{}`), nil, wire.Float64); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("nowhere to decode to: got %v", err)
	}
}

// Struct tags that the JSON library calls malformed, and that encoding/json takes.
// The types are made here because linters refuse them in a source.
func TestSloppyTags(t *testing.T) {
	field := func(name, tag string, typ reflect.Type) reflect.StructField {
		return reflect.StructField{Name: name, Type: typ, Tag: reflect.StructTag(`json:"` + tag + `"`)}
	}
	number, list := reflect.TypeFor[int](), reflect.TypeFor[[]int]()
	for name, fields := range map[string][]reflect.StructField{
		"a comma at the end":     {field("A", "a,", number)},
		"a dash and a comma":     {field("A", "-,", number)},
		"an unknown option":      {field("A", "a,nosuch", number)},
		"a list quoted":          {field("A", "a,string", list)},
		"one name for two":       {field("A", "a", number), field("B", "a", number), field("C", "c", number)},
		"an option in quotes":    {field("A", "a,'omitempty'", number)},
		"characters out of line": {field("A", "a!b", number)},
	} {
		t.Run(name, func(t *testing.T) {
			typ := reflect.StructOf(fields)
			for _, text := range []string{`{}`, `{"a":1}`, `{"a":[1]}`, `{"-":1}`, `{"A":1,"c":2}`, `{"a!b":1}`} {
				want, got := reflect.New(typ), reflect.New(typ)
				wantErr := json.Unmarshal([]byte(text), want.Interface())
				err := wire.Unmarshal([]byte(text), got.Interface(), wire.Float64)
				if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got.Interface(), want.Interface()) {
					t.Errorf("%s: got %+v, %v, encoding/json says %+v, %v", text, got.Elem(), err, want.Elem(), wantErr)
				}
				wantText, _ := json.Marshal(want.Interface())
				if gotText, err := wire.Marshal(want.Interface()); err != nil || !bytes.Equal(gotText, wantText) {
					t.Errorf("encoded: got %s, %v, encoding/json says %s", gotText, err, wantText)
				}
			}
		})
	}
}
