package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout/record"
)

// noSchema is the digest of a server that does not publish its schemas.
const noSchema = "none"

// schemaOf asks a server for its schemas. One that does not have them is no failure.
func schemaOf[A, O, S any](ctx context.Context, c *openenv.Client[A, O, S]) (openenv.Schema, string, error) {
	schema, err := c.Schema(ctx)
	if connect, ok := errors.AsType[*openenv.ConnectError](err); ok && (connect.Status == http.StatusNotFound || connect.Status == http.StatusNotImplemented) {
		return openenv.Schema{}, noSchema, nil
	}
	if err != nil {
		return schema, "", err
	}
	digest, err := record.SchemaDigest(schema)
	return schema, digest, err
}

// inspect asks all servers for their schemas, which must be the same. A server that
// does not answer is left out at first, as long as another one does.
func inspect[A, O, S any](ctx context.Context, servers []*server[A, O, S]) (openenv.Schema, string, error) {
	schemas := make([]openenv.Schema, len(servers))
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { schemas[i], s.schema, errs[i] = schemaOf(ctx, s.root) })
	}
	wg.Wait()
	first := -1
	for i, s := range servers {
		switch {
		case errs[i] != nil:
			s.err = errs[i]
		case first < 0:
			first = i
		case s.schema != servers[first].schema:
			return openenv.Schema{}, "", fmt.Errorf("%s and %s do not serve the same environment: their schemas differ", servers[first].url, s.url)
		}
	}
	if first < 0 {
		return openenv.Schema{}, "", errors.Join(errs...)
	}
	for _, s := range servers {
		s.schema = servers[first].schema
	}
	return schemas[first], servers[first].schema, nil
}

// rawSchema is the schemas as a record's header has them.
func rawSchema(schema openenv.Schema) (json.RawMessage, error) {
	if len(schema.Action) == 0 {
		return nil, nil
	}
	return json.Marshal(schema)
}
