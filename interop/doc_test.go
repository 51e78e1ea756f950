// Package interop tests this module against the published Python package, in both
// directions: our client against its servers, its clients against our server. The
// Python side is in the folder peer; `make peer` installs the package.
package interop
