package envserver

import (
	"fmt"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

// documents are the answers that never change. They are made with the server, so that
// no route builds an environment to describe it.
type documents struct {
	metadata, schema, openapi, page []byte
}

func newDocuments(k *kind, set *settings) (documents, error) {
	var d documents
	about, err := describe(k, set)
	if err != nil {
		return d, fmt.Errorf("metadata: %w", err)
	}
	if d.metadata, err = encodeMetadata(about); err != nil {
		return d, fmt.Errorf("metadata: %w", err)
	}
	if d.schema, err = k.schemas.encode(); err != nil {
		return d, fmt.Errorf("schema: %w", err)
	}
	if d.openapi, err = encodeOpenAPI(k, about, set); err != nil {
		return d, fmt.Errorf("openapi: %w", err)
	}
	if d.page, err = renderPage(k, about, set); err != nil {
		return d, fmt.Errorf("docs page: %w", err)
	}
	return d, nil
}

// describe fills in what nobody said with the peer's defaults (env_server/interfaces.py,
// get_metadata).
func describe(k *kind, set *settings) (openenv.Metadata, error) {
	m, own := set.metadata, k.metadata
	first := func(candidates ...string) string {
		for _, c := range candidates {
			if c != "" {
				return c
			}
		}
		return ""
	}
	m.Name = first(m.Name, own.Name, k.name)
	m.Description = first(m.Description, own.Description, m.Name+" environment")
	m.Version = first(m.Version, own.Version, "1.0.0")
	m.Author = first(m.Author, own.Author)
	m.DocumentationURL = first(m.DocumentationURL, own.DocumentationURL)
	m.ReadmeContent = first(m.ReadmeContent, own.ReadmeContent)
	if set.readme != nil {
		text, err := set.readme()
		if err != nil {
			return m, fmt.Errorf("WithReadme: %w", err)
		}
		m.ReadmeContent = text
	}
	return m, nil
}

// encodeMetadata writes what an environment does not say as null.
func encodeMetadata(m openenv.Metadata) ([]byte, error) {
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return wire.Marshal(struct {
		Name             string  `json:"name"`
		Description      string  `json:"description"`
		ReadmeContent    *string `json:"readme_content"`
		Version          string  `json:"version"`
		Author           *string `json:"author"`
		DocumentationURL *string `json:"documentation_url"`
	}{m.Name, m.Description, optional(m.ReadmeContent), m.Version, optional(m.Author), optional(m.DocumentationURL)})
}
