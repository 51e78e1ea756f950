// Package policy has policies for package rollout that know nothing of an environment:
// one that samples its action schema, one that repeats a record, and one that is a
// process in any language. They play package rollout's Raw spec.
package policy
