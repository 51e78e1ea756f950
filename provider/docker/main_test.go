package docker_test

import (
	"os"
	"testing"

	"github.com/openenv-go/openenv/internal/dockertest"
)

func TestMain(m *testing.M) {
	if image := os.Getenv(ownerEnv); image != "" {
		own(image) // the child of TestPruneAfterTheOwnerWasKilled
	}
	os.Exit(dockertest.Main(m))
}
