package rollout

import "math/rand/v2"

// EpisodeSeed is the seed that the reset of an episode asks for. It is between 0 and
// 2³²-1, which every generator takes, numpy's included. No two episodes of a run have
// the same one.
func EpisodeSeed(seed int64, episode int) int64 {
	key := mix(uint64(seed))
	return int64(permute(permute(uint32(episode)^uint32(key)) + uint32(key>>32)))
}

// episodeRand is the randomness of an episode's policy. It has nothing to do with the
// environment's.
func episodeRand(seed int64, episode int) *rand.Rand {
	return rand.New(rand.NewPCG(mix(uint64(seed)^0x706f6c696379), mix(uint64(episode)))) // "policy"
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// permute is the finalizer of MurmurHash3: it maps no two values to the same.
func permute(x uint32) uint32 {
	x = (x ^ x>>16) * 0x85ebca6b
	x = (x ^ x>>13) * 0xc2b2ae35
	return x ^ x>>16
}
