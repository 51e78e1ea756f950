# The keeper of the tests' own engine: starts it in the folder $1, waits until no test
# holds the lock there, and ends it with everything it has made.
dir=$1
bridge=oenvtest0
cd "$dir" || exit 1
ip link add name $bridge type bridge 2>/dev/null
ip link set $bridge up || exit 1

# A bridge and a namespace of its own keep it apart from another engine, and without
# packet filter rules it cannot upset that one's: ports are served by its proxies.
dockerd --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/dockerd.pid" \
	--host "unix://$dir/docker.sock" --bridge $bridge --iptables=false --ip-masq=false \
	--containerd-namespace openenv-test --containerd-plugins-namespace openenv-test-plugins &
engine=$!

stop() {
	kill $engine 2>/dev/null
	wait $engine
	for link in $bridge oenvtest1; do ip link del $link; done 2>/dev/null # the second is its swarm's
	# A container that was running has its file system mounted below.
	grep -o " $dir/[^ ]*" /proc/self/mounts | sort -r | while read -r mount; do umount -l "$mount"; done
	rm -rf data exec docker.sock dockerd.pid keeper.pid
	exit
}
trap stop TERM

while kill -0 $engine 2>/dev/null; do
	flock -x users true # as soon as nobody uses the engine
	exec 9>mutex
	flock -x 9
	# Whoever comes now waits for the mutex, and then finds no engine.
	flock -x -n users true && stop
	exec 9>&-
done
stop
