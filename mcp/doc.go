// Package mcp is tools on both sides of an OpenEnv server: a client that lists and
// calls an environment's tools, and an environment made of tools that were registered
// with the official Go SDK of the Model Context Protocol.
//
// A tool environment can be driven in two ways. In production mode, which is the
// default here, a call goes straight to the tool, over JSON-RPC on a session that was
// made over HTTP; it has neither reward nor done. In simulation mode a call is a step
// of the episode, with both. [Client] does either, [Environment] serves both.
//
// The types of tools and results are the SDK's own
// (github.com/modelcontextprotocol/go-sdk/mcp, called sdk below).
package mcp
