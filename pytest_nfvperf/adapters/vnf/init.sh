#!/bin/busybox sh
# The guest's first process: makes a root that looks like the host's and can be written, and goes there.
# The host's root is the read-only lower layer; what is written stays in memory and ends with the guest.
b=/bin/busybox
fail() {
    echo "guest: cannot $*" >/dev/console
    $b reboot -f
}
$b mount -t devtmpfs dev /dev && $b mount -t proc proc /proc && $b mount -t sysfs sys /sys || fail "mount /dev, /proc, /sys"
for module in /modules/*.ko; do
    $b insmod "$module" || fail "insert $module"
done
over=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $over,ro,cache=loose root /lower || fail "mount the host's root"
$b mount -t tmpfs -o mode=755,size=75% upper /upper || fail "mount the upper layer"
$b mkdir /upper/data /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work root /root || fail "mount the overlay"
$b mount -t tmpfs -o mode=755 run /root/run || fail "mount /run"
$b mkdir -p /root/guest /root/lib/modules /root/run/lock /root/run/netns /root/run/nfvperf
$b mount -t 9p -o $over,cache=none shared /root/guest || fail "mount the shared folder"
$b mount -t 9p -o $over,ro,cache=loose modules /root/lib/modules || fail "mount the modules"
$b cp /second_stage /root/run/second_stage || fail "copy the second stage"
for directory in dev proc sys; do
    $b mount --move /$directory /root/$directory || fail "move /$directory"
done
exec $b switch_root /root /bin/bash /run/second_stage
