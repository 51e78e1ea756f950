package cli

import (
	"net/http"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"github.com/openenv-go/openenv"
)

// tokenVariable holds the token for those who do not want it in a command line,
// which every user of a machine can read.
const tokenVariable = "OPENENV_TOKEN" //nolint:gosec // G101: the name of a secret, not the secret

// connection is the flags of the commands that talk to a server.
type connection struct {
	headers []string
	token   string
}

func (c *connection) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&c.headers, "header", nil, "send this header with every request, as `name:value`; can be given again")
	flags.StringVar(&c.token, "token", "", "send this bearer `token`; better in the variable "+tokenVariable+", which others cannot see")
}

// client makes a raw-map client. Nothing is sent yet, so that every error is one of
// usage.
func (c *connection) client(url string, opts ...openenv.Option) (*openenv.GenericClient, error) {
	header, err := c.header()
	if err != nil {
		return nil, err
	}
	opts = append(opts, openenv.WithHeaders(header), openenv.WithNumbers())
	client, err := openenv.New(openenv.Generic, url, opts...)
	if err != nil {
		return nil, usagef("%s", strings.TrimPrefix(err.Error(), "openenv.New: "))
	}
	return client, nil
}

// header returns the headers of the flags. Errors name a header and never show a
// value, which can be a secret.
func (c *connection) header() (http.Header, error) {
	header := http.Header{}
	for _, text := range c.headers {
		name, value, ok := strings.Cut(text, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok:
			return nil, usagef("--header: a header is given as name:value")
		case !httpguts.ValidHeaderFieldName(name):
			return nil, usagef("--header: %q is not a header's name", name)
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, usagef("--header: the value of %s has characters that no header may have", name)
		}
		header.Add(name, value)
	}
	given := header.Get("Authorization") != ""
	if c.token != "" && given {
		return nil, usagef("--token and --header Authorization exclude each other")
	}
	token, source := c.token, "--token"
	if token == "" && !given {
		token, source = strings.TrimSpace(os.Getenv(tokenVariable)), tokenVariable
	}
	if token == "" {
		return header, nil
	}
	if !httpguts.ValidHeaderFieldValue(token) {
		return nil, usagef("%s has characters that no header may have", source)
	}
	header.Set("Authorization", "Bearer "+token)
	return header, nil
}
