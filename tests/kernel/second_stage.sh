#!/bin/bash
# In the root that looks like the host's: runs the command of the shared folder, leaves its exit status there, ends.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 none /sys/fs/cgroup
mount -t debugfs none /sys/kernel/debug
ip link set lo up
hostname guest
mapfile -d '' -t command </guest/command
mapfile -t modules </guest/modules
if ((${#modules[@]} == 0)) || modprobe --all "${modules[@]}" 2>>/guest/stderr; then
    cut -d ' ' -f 1 /proc/uptime >/guest/started
    "${command[@]}" >>/guest/stdout 2>>/guest/stderr </dev/null
    echo $? >/guest/status
fi # else no status: modprobe's words are in stderr
dmesg >/guest/dmesg
sync
echo b >/proc/sysrq-trigger
