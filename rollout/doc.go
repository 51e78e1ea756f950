// Package rollout plays many episodes at once, each of them whole, and puts all of
// them on file.
//
//	run, err := rollout.Run(ctx, rollout.Raw, rollout.URLs("http://localhost:8000"), policy.Random(),
//		rollout.Config{Episodes: 1000, Sessions: 64, Seed: 1, Out: "run.jsonl"})
//	if err != nil {
//		return err
//	}
//	for e, err := range run.Episodes() {
//		…
//	}
//	summary, err := run.Wait()
//
// What an episode is depends on the run's seed and the episode's number alone: the
// seed that its reset asks for and the randomness of its policy follow from them, so
// that the records are the same however many sessions and servers play them, and
// whatever is lost on the way. An episode whose session is lost is played again from
// its reset, as a new attempt; what was played before is never gone on with.
//
// The format of the file is that of package record.
package rollout
