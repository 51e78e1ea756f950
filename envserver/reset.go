package envserver

import (
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

// resetData is what every reset frame may carry beside the environment's own
// parameters. The peer leaves the two to its environments to check.
var resetData = &jsonschema.Schema{
	Type:          "object",
	PropertyOrder: []string{"seed", "episode_id"},
	Properties: map[string]*jsonschema.Schema{
		"seed":       {Types: []string{"integer", "null"}},
		"episode_id": {Types: []string{"string", "null"}},
	},
}

// decodeReset splits off the two parameters that every environment has.
func decodeReset(data jsontext.Value) (ResetParams, error) {
	var p ResetParams
	if len(data) == 0 {
		return p, nil
	}
	var all openenv.Object
	if err := wire.Unmarshal(data, &all, wire.Float64); err != nil {
		return p, resetError(data, err)
	}
	var known struct {
		Seed      *int64  `json:"seed,case:strict"`
		EpisodeID *string `json:"episode_id,case:strict"`
	}
	fixed, _ := integers(resetData, data)
	if err := wire.Unmarshal(fixed, &known, wire.Float64); err != nil {
		return p, resetError(data, err)
	}
	p.Seed = known.Seed
	if known.EpisodeID != nil {
		p.EpisodeID = *known.EpisodeID
	}
	delete(all, "seed")
	delete(all, "episode_id")
	if len(all) > 0 {
		p.Extra = all
	}
	return p, nil
}

// resetError says what is wrong with the two parameters.
func resetError(data jsontext.Value, reason error) error {
	var errs []fieldError
	explainValue(resetData, nil, data, &errs)
	if errs == nil {
		errs = append(errs, decodeError(data, reason))
	}
	return &validationError{errs}
}

// checkKnown refuses each parameter that a strict environment does not name, in the
// order in which they came.
func checkKnown(data jsontext.Value, known []string) error {
	var errs []fieldError
	for _, m := range membersOf(data) {
		if m.Name != "seed" && m.Name != "episode_id" && !slices.Contains(known, m.Name) {
			errs = append(errs, fieldError{
				Type: "unexpected_keyword_argument", Loc: []any{m.Name}, Msg: "Unexpected keyword argument", Input: json.RawMessage(m.Value),
			})
		}
	}
	if errs == nil {
		return nil
	}
	return &validationError{errs}
}
