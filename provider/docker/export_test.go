package docker

import "github.com/openenv-go/openenv/provider/internal/engine"

// NameOf is how containers are named.
var NameOf = engine.Name
