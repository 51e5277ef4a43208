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
mapfile -d '' -t writable </guest/writable
for number in "${!writable[@]}"; do
    mkdir -p "${writable[number]}"
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none "writable$number" "${writable[number]}" \
        2>>/guest/stderr || unwritable=1
done
mapfile -d '' -t command </guest/command
mapfile -t modules </guest/modules
if [ -n "${unwritable-}" ]; then
    echo "guest: a folder that the command writes to cannot be mounted" >>/guest/stderr
elif ((${#modules[@]} == 0)) || modprobe --all "${modules[@]}" 2>>/guest/stderr; then
    mapfile -t vfio </guest/vfio
    for address in "${vfio[@]}"; do
        device=/sys/bus/pci/devices/$address
        if [ -e "$device/driver" ]; then echo "$address" >"$device/driver/unbind"; fi
        echo vfio-pci >"$device/driver_override"
        echo "$address" >/sys/bus/pci/drivers_probe
    done 2>>/guest/stderr
    cut -d ' ' -f 1 /proc/uptime >/guest/started
    "${command[@]}" >>/guest/stdout 2>>/guest/stderr </dev/null
    echo $? >/guest/status
fi # else no status: the words of mount or modprobe are in stderr
dmesg >/guest/dmesg
sync
echo b >/proc/sysrq-trigger
