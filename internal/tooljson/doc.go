// Package tooljson is how OpenEnv servers spell MCP's tools and results: the Python
// package writes its own objects' fields, in snake case here and in camel case there,
// with nulls for what is absent and without the underscore of _meta
// (core/env_server/http_server.py, mcp_handler). The types on this side are those of
// the official SDK, whose spelling is the standard's.
package tooljson
