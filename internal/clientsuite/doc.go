// Package clientsuite is the test suite of package openenv's client. It runs against
// any server of the test environment: the Python peer, envserver over loopback, and
// envserver in memory inside a testing/synctest bubble.
//
//	clientsuite.Run(t, clientsuite.Target{
//		Start: func(t *testing.T, kind clientsuite.Kind) clientsuite.Server { … },
//		Large: 50 << 20,
//	})
//
// A new behaviour of the client is a new case here, so that it is proven on every
// server. What one server alone can show, a scripted one that misbehaves for
// instance, is a test of package openenv.
//
// # The test environment
//
// An action is {"message": string}, an observation {"echoed": string, "length": int,
// "metadata": object}: the message comes back and is worth 0.1 for each character. A
// reset is answered with "ready" and no reward, takes the parameters seed and
// episode_id, and begins to count steps at 0. Some messages ask for more:
//
//	sleep:<seconds>  answers after that time
//	big:<bytes>      echoes that many "x"
//	boom             fails with the text boom; the step counts
//	done             ends the episode
//	meta             adds the metadata {"a": 1}
//	nan              is worth NaN
package clientsuite
