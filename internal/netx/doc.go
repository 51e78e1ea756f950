// Package netx holds the network rules that the socket, the HTTP calls and the
// health polls of a client share, each once: how a base address is read, which
// host is this machine, which proxy a connection takes, and when a server counts
// as ready.
package netx
