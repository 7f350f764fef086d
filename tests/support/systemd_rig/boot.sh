#!/bin/sh
# Boots the systemd of this machine as the first process of namespaces of its own, on a throw-away layer over /. Called by
# world.py through `unshare --mount --pid --fork --ipc --uts --net`; what is made here goes with those.
#   boot.sh DIR UID CGROUP < what to show inside, one a line: a path out here, a tab, a path in there
# DIR is an empty directory: what is written inside goes to a tmpfs in it. CGROUP is the name of a control group to make.
set -eu
dir=$1 uid=$2 group=$3

if [ "${STAGE:-}" != booting ]; then
  # A control group of our own is the root of what is seen inside, wherever the machine mounts its own.
  mount --make-rprivate /
  mount -t proc proc /proc
  mkdir "$dir/cgroup"
  mount -t cgroup2 none "$dir/cgroup"
  mkdir "$dir/cgroup/$group"
  echo 0 >"$dir/cgroup/$group/cgroup.procs"
  umount "$dir/cgroup"
  STAGE=booting exec unshare --cgroup "$0" "$@"
fi

mkdir "$dir/layer"
mount -t tmpfs -o mode=755 tmpfs "$dir/layer"
mkdir "$dir/layer/changes" "$dir/layer/work" "$dir/layer/root"
root=$dir/layer/root
mount -t overlay -o "lowerdir=/,upperdir=$dir/layer/changes,workdir=$dir/layer/work" overlay "$root"

# What the kernel shows; /proc/sys read-only, since its settings are the whole machine's.
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mountpoint -q "$root/sys/fs/cgroup" || mount -t tmpfs tmpfs "$root/sys/fs/cgroup" 2>/dev/null || :
mount -t cgroup2 none "$root/sys/fs/cgroup"

mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"

mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"

# Directories are shown read-only. Those above them are of the layer, and are opened for all to pass.
tab=$(printf '\t')
while IFS=$tab read -r from to; do
  above=$to
  while above=$(dirname "$above") && [ "$above" != / ]; do
    mkdir -p "$root$above"
    chmod a+rx "$root$above"
  done
  mkdir -p "$root$to"
  mount --bind "$from" "$root$to"
  mount -o remount,bind,ro "$root$to"
done

echo "rig:x:$uid:$uid::/home/rig:/bin/bash" >>"$root/etc/passwd"
echo "rig:x:$uid:" >>"$root/etc/group"
echo "rig:*:19000:0:99999:7:::" >>"$root/etc/shadow"
mkdir -p "$root/home/rig" "$root/var/log/journal"
chmod 700 "$root/home/rig"
chown "$uid:$uid" "$root/home/rig"
rm -rf "$root/var/lib/systemd/linger"
mkdir -p "$root/etc/systemd/logind.conf.d"
printf '[Login]\nUserStopDelaySec=1s\nKillUserProcesses=no\n' >"$root/etc/systemd/logind.conf.d/rig.conf"
: >"$root/etc/fstab"
cat >"$root/etc/systemd/system/rig.target" <<'UNIT'
[Unit]
Requires=basic.target
Wants=dbus.socket systemd-logind.service systemd-user-sessions.service
After=basic.target systemd-logind.service systemd-user-sessions.service
AllowIsolate=yes
UNIT

mkdir "$root/.old"
cd "$root"
pivot_root . .old
umount -l /.old
for systemd in /usr/lib/systemd/systemd /lib/systemd/systemd; do
  [ ! -x "$systemd" ] || exec env -i container=xsessiond-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    "$systemd" --system --unit=rig.target --log-target=journal --show-status=no </dev/null
done
exit 127
