# The first process of a host, in its new namespaces: it gives the host what is its own, says "ready", and then stays for as long as
# the host lives. Arguments: host, state folder, private home (0 or 1), private /tmp, own /etc/hosts, folders to keep visible.
set -eu
PATH=$PATH:/usr/sbin:/sbin
host=$1 state=$2 private_home=$3 private_tmp=$4 names=$5
shift 5
own=$state/$host

mount --make-rprivate /
echo "$host" >/proc/sys/kernel/hostname
[ "$host" = head ] || mount -t proc proc /proc # the head has no process ids of its own
mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm

# A new sysfs shows this network's interfaces, but no cgroups.
mkdir "$own/cgroup"
mount --rbind /sys/fs/cgroup "$own/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$own/cgroup" /sys/fs/cgroup
umount -l "$own/cgroup"
rmdir "$own/cgroup"

mount -t tmpfs -o size=1g,mode=755 tmpfs /run
mkdir -p /run/sshd /run/lock /run/home /run/under
cp "$state/id_ed25519.pub" /run/authorized_keys
chmod 644 /run/authorized_keys

for file in passwd shadow group machine-id; do
	[ ! -e "/etc/$file" ] || mount --bind "$own/etc/$file" "/etc/$file"
done
[ "$names" = 0 ] || mount --bind "$own/etc/hosts" /etc/hosts
mount --bind "$own/etc/boot_id" /proc/sys/kernel/random/boot_id
for home in "$own"/home/*; do # of users that were added before the host crashed
	[ "$home" = "$own/home/root" ] || [ ! -d "$home" ] || { mkdir -p "/run/home/${home##*/}" && mount --bind "$home" "/run/home/${home##*/}"; }
done

# hide FOLDER KEPT...: calls cover, which mounts something over FOLDER, and shows the kept folders below it again.
hide() {
	folder=$1
	shift
	mount --rbind "$folder" /run/under
	cover
	for kept; do
		case $kept in "$folder"/*)
			mkdir -p "$kept"
			mount --rbind "/run/under${kept#"$folder"}" "$kept"
			;;
		esac
	done
	umount -l /run/under
}
home=$(getent passwd 0 | cut -d: -f6)
if [ "$private_home" = 1 ]; then
	cover() { mount --bind "$own/home/root" "$home"; }
	hide "$home" "$state" "$@"
fi
if [ "$private_tmp" = 1 ]; then
	cover() { mount -t tmpfs -o mode=1777 tmpfs /tmp; }
	hide /tmp "$state" "$@"
fi
rmdir /run/under
ip link set lo up

[ "$host" != head ] || trap '' PIPE # it has to clean up even if nobody reads this any more
echo ready || :
exec >/dev/null 2>&1
cd /
# With SIGCHLD ignored, the kernel itself reaps what becomes an orphan on the host.
# Standard input ends when the process that made the set does, however that dies: then the host goes, too.
[ "$host" = head ] || exec env --ignore-signal=CHLD cat
cat
set +e # processes end meanwhile
network=$(readlink /proc/self/ns/net)
for process in /proc/[0-9]*; do
	if [ "$(readlink "$process/ns/net")" = "$network" ] && [ "$process" != "/proc/$$" ]; then kill -9 "${process#/proc/}"; fi
done
rm -rf --one-file-system "$state"
