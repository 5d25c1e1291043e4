#!/bin/sh
# Record the demo's job anew: record.sh TORCHRUN. Two "nodes" are two network namespaces with host names of their own,
# so this needs Linux and root, and a virtual environment with PyTorch (CPU is enough) that holds TORCHRUN.
set -eu

torchrun=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
first=gpu-n03
second=gpu-n04

cleanup() {
    ip netns del $first 2>/dev/null || true
    ip netns del $second 2>/dev/null || true
    rm -rf /etc/netns/$first /etc/netns/$second "$work"
}
trap cleanup EXIT

ip netns add $first
ip netns add $second
ip link add ib0 netns $first type veth peer name ib0 netns $second
for node in $first $second; do
    address=10.77.0.${node#gpu-n0}
    ip -n $node address add "$address/24" dev ib0
    ip -n $node link set ib0 up
    ip -n $node link set lo up
    mkdir -p /etc/netns/$node
    printf '127.0.0.1 localhost\n10.77.0.3 %s\n10.77.0.4 %s\n' $first $second >/etc/netns/$node/hosts
done

mkdir -p "$work/minigpt"
cp "$here/train.py" "$work/minigpt/train_minigpt.py"
cd "$work/minigpt"
date -u +%FT%TZ >"$work/started"
number=0
for node in $first $second; do
    mkdir -p "$work/logs/$node"
    ip netns exec $node unshare --uts sh -c "hostname $node; exec env OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=ib0 \
        '$torchrun' --nnodes 2 --nproc-per-node 4 --node-rank $number --master-addr $first --master-port 29500 \
        --redirects 3 --log-dir '$work/ranks/$node' train_minigpt.py" >"$work/logs/$node/launcher.log" 2>&1 &
    number=$((number + 1))
done
wait
date -u +%FT%TZ >"$work/ended"

rank=0
for node in $first $second; do
    for local_rank in 0 1 2 3; do
        mv "$work"/ranks/$node/*/attempt_0/$local_rank/stderr.log "$work/logs/$node/rank-$rank.log"
        rank=$((rank + 1))
    done
done
venv=$(cd "$(dirname "$torchrun")/.." && pwd)
find "$work/logs" -type f -exec sed -i -e "s#$venv#/opt/train/venv#g" -e "s#$work/minigpt#/home/alice/minigpt#g" {} +

rm -rf "$here/recording"
mkdir -p "$here/recording"
mv "$work/logs" "$here/recording/logs"
cat >"$here/recording/job.json" <<JSON
{
  "scheduler": "slurm",
  "cluster": "demo",
  "job_id": "48213",
  "name": "minigpt-pretrain",
  "user": "alice",
  "partition": "train",
  "state": "FAILED",
  "reason": "NonZeroExitCode",
  "exit_code": 1,
  "nodes": ["$first", "$second"],
  "world_size": 8,
  "ranks_per_node": 4,
  "started_at": "$(cat "$work/started")",
  "ended_at": "$(cat "$work/ended")"
}
JSON
