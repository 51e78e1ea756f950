// Package verify finds out whether an environment is what a run takes it for: whether
// it does the same again.
//
// [Replay] plays a record again and finds the first place where an answer differs.
// [Determinism] asks the environment itself: the same seed twice, another seed,
// neighbours in other sessions, a restart.
package verify
