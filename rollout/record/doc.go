// Package record is the file format of played episodes: JSON Lines, one episode a
// line, under a header that says which run they belong to. docs/records.md is its
// specification.
//
//	file, err := record.Load("run.jsonl")
//	for _, e := range file.Episodes {
//		fmt.Println(e.Index, e.Ending, e.Return)
//	}
//
// What a server sent stands in the file byte for byte. Each line is one write: a file
// whose writer was killed has whole lines and at most one that was cut, which readers
// pass over and [Resume] removes. Observations over a limit are files of their own in
// a folder beside the record, named by their hash, each of them once.
//
// The package knows nothing of sessions; package rollout writes such files, as does
// package recorder.
package record
