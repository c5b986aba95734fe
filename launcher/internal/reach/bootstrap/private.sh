# Other users may change nothing of ours on a host: not the directory, not its content, and no directory above it, through which the
# whole could be replaced. Such a file only this user or root can have changed, so that a program which is there is started without
# hashing it again (20 MB: 60 ms and more).

# The directory $1 without symbolic links on the way: gr_r.
real() { gr_r=$(cd -P "$1" 2>/dev/null && pwd -P) && [ "$gr_r" ]; }

# This user: gr_u. The kernel's file costs no process.
user() {
[ "$gr_u" ] && return
while read -r gr_t gr_l gr_o gr_s; do [ "$gr_t" = Uid: ] && gr_u=$gr_o && break; done </proc/self/status
[ "$gr_u" ] || gr_u=$(id -u)
} 2>/dev/null

# Directory $2 in $1, which real found, and further paths in $2: they are this user's, no symbolic links, and neither group nor others
# may write. The directories above may be root's, or of a user namespace's nobody, too. In a directory such as /tmp, where everybody may
# make names, only its owner can rename what is ours. One look at type, mode and owner of each tells it: two could be at two
# different things.
private() {
user
gr_p=$1; gr_q=$2
shift
while [ "$gr_p" ]; do set -- "$@" "$gr_p"; gr_p=${gr_p%/*}; done
{ LC_ALL=C ls -ldn "$@" 2>/dev/null || echo; } | (while read -r gr_t gr_l gr_o gr_l; do
gr_s=; case $gr_l in *" $gr_q"|*" $gr_q/"*) gr_s=ours;; esac
case $gr_s$gr_o in 0|65534) gr_o=$gr_u;; esac
case $gr_s$gr_t:$gr_o in ours[d-]????-??-*:$gr_u|d????-??-*:$gr_u|d????????[tT]*:$gr_u) ;; *) exit 1;; esac
done)
}
alone() { private "$@" || { echo "somebody else may change $2 or a directory above it (chmod go-w), or made it"; return 1; }; }
