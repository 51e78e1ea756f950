package wordle

// What feedback says of a letter.
const (
	correct = "correct"
	present = "present"
	absent  = "absent"
)

// compare is the feedback on a guess; both words have five letters a to z.
func compare(guess, secret string) []string {
	feedback := make([]string, letters)
	var unplaced ['z' - 'a' + 1]int // letters of the secret that no correct place has used up
	for i := range letters {
		if guess[i] == secret[i] {
			feedback[i] = correct
		} else {
			unplaced[secret[i]-'a']++
		}
	}
	for i := range letters {
		letter := guess[i] - 'a'
		switch {
		case feedback[i] == correct:
		case unplaced[letter] > 0:
			feedback[i] = present
			unplaced[letter]--
		default:
			feedback[i] = absent
		}
	}
	return feedback
}
