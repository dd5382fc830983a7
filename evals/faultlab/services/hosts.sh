# Two hosts on a bridge: network namespaces with host names of their own. `make_hosts` makes node-1 (10.30.0.1),
# node-2 (10.30.0.2) and between them the bridge br0 with its ends port-1 and port-2. `on_host N COMMAND...` goes on as
# a command of a host; it is for subshells.
make_hosts() {
    local number
    mkdir -p /run/netns
    ip link add br0 type bridge
    ip link set br0 up
    ip address add 10.30.0.254/24 dev br0
    printf '127.0.0.1 localhost\n10.30.0.1 node-1\n10.30.0.2 node-2\n10.30.0.254 storage\n' >/mnt/hosts
    for number in 1 2; do
        ip netns add "node-$number"
        ip link add "port-$number" type veth peer name eth0 netns "node-$number"
        ip link set "port-$number" master br0 up
        ip -n "node-$number" link set lo up
        ip -n "node-$number" address add "10.30.0.$number/24" dev eth0
        ip -n "node-$number" link set eth0 up
    done
}
on_host() {
    local number=$1
    shift
    exec ip netns exec "node-$number" \
        unshare --uts --mount bash -c 'hostname "node-$0"; exec "$@"' "$number" "$@"
}
# The hosts' kernels give up on a silent peer after so many tries (2) instead of after a quarter of an hour.
give_up_after() {
    local number
    for number in 1 2; do
        ip netns exec "node-$number" sh -c "cd /proc/sys/net/ipv4; echo ${1:-2} >tcp_retries2; echo 1 >tcp_syn_retries"
    done
}
