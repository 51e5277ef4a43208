#!/bin/bash
# In the root that looks like the host's: gives the interfaces of /guest/devices to DPDK, and is /guest/command from
# then on, with the second serial port as its console.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
exec 2>/guest/stderr
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
modprobe uio_pci_generic
while read -r device; do
    at=/sys/bus/pci/devices/$device
    if [[ -e $at/driver ]]; then echo "$device" >"$at/driver/unbind"; fi
    echo uio_pci_generic >"$at/driver_override"
    echo "$device" >/sys/bus/pci/drivers_probe
done </guest/devices
mapfile -d '' -t command </guest/command
"${command[@]}" </dev/ttyS1 >/dev/ttyS1
echo "${command[0]} ended with status $?" >&2
echo b >/proc/sysrq-trigger
