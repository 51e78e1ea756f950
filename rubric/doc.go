// Package rubric computes rewards from named parts.
//
// A [Rubric] scores one pair of an action and the observation that followed it. Parts
// are described first, without state, and put together by [WeightedSum], [Sequential]
// and [Gate]; [New] checks the whole description and makes a [Scorer] of it:
//
//	reward, err := rubric.New(rubric.WeightedSum("reward",
//		rubric.Weigh(0.2, rubric.Leaf("format", wellFormed)),
//		rubric.Weigh(0.8, rubric.Sequential("answer",
//			rubric.Leaf("compiles", compiles),
//			rubric.Leaf("tests", passedTests),
//		)),
//	))
//	score, err := reward.Score(ctx, action, observation)
//	tests, ok := reward.Last("reward.answer.tests")
//
// After each call the score of every part can be read by its dotted name, so that a
// reward can be explained and not only paid. [Trajectory] and [Discounted] are parts
// that collect an episode and score it at its end.
//
// A description may be shared and made into any number of scorers. A scorer has the
// memory of one episode: one value serves one session, as an environment does.
package rubric
