package rubric_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/openenv-go/openenv/rubric"
)

type answer struct{ Text string }

type verdict struct{ Passed, Tests int }

func wellFormed(_ context.Context, a answer, _ verdict) (float64, error) {
	if strings.HasPrefix(a.Text, "func ") {
		return 1, nil
	}
	return 0, nil
}

func passedTests(_ context.Context, _ answer, v verdict) (float64, error) {
	return float64(v.Passed) / float64(v.Tests), nil
}

func Example() {
	reward, err := rubric.New(rubric.WeightedSum("total",
		rubric.Weigh(0.2, rubric.Leaf("format", wellFormed)),
		rubric.Weigh(0.8, rubric.Gate("useful", 0.5, rubric.Leaf("tests", passedTests))),
	))
	if err != nil {
		fmt.Println(err)
		return
	}
	score, err := reward.Score(context.Background(), answer{"func main() {}"}, verdict{Passed: 3, Tests: 4})
	fmt.Printf("%.2f %v\n", score, err)
	for name, score := range reward.Scores() {
		fmt.Printf("%s %.2f\n", name, score)
	}
	// Output:
	// 0.80 <nil>
	// total 0.80
	// total.format 1.00
	// total.useful 0.75
	// total.useful.tests 0.75
}

func ExampleSequential() {
	reward, err := rubric.New(rubric.Sequential("total",
		rubric.Leaf("format", wellFormed),
		rubric.Leaf("tests", passedTests),
	))
	if err != nil {
		fmt.Println(err)
		return
	}
	score, err := reward.Score(context.Background(), answer{"no code"}, verdict{Passed: 4, Tests: 4})
	_, ran := reward.Last("total.tests")
	fmt.Println(score, err, ran)
	// Output:
	// 0 <nil> false
}

// A game is won or lost at its end; the moves before share in the outcome.
func ExampleDiscounted() {
	type move struct{}
	type board struct{ Won, Over bool }
	outcome, err := rubric.New(rubric.Discounted("outcome", 0.5,
		func(_ move, b board) bool { return b.Over },
		func(_ context.Context, steps []rubric.Step[move, board]) (float64, error) {
			if steps[len(steps)-1].Observation.Won {
				return 1, nil
			}
			return -1, nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range []board{{}, {}, {Won: true, Over: true}} {
		score, err := outcome.Score(context.Background(), move{}, b)
		fmt.Println(score, err)
	}
	credits, _ := outcome.Credits("outcome")
	fmt.Println(credits)
	// Output:
	// 0 <nil>
	// 0 <nil>
	// 1 <nil>
	// [0.25 0.5 1]
}

func ExampleNew_error() {
	_, err := rubric.New(rubric.Sequential("total",
		rubric.Leaf("format", wellFormed),
		rubric.Leaf("format", passedTests),
	))
	fmt.Println(err)
	// Output:
	// rubric total.format: two parts have this name
}
