# A directory for one job, with what --copy names, until standard input ends. The name is random, and mkdir takes only
# a name that nobody has. Local directories come before the home, which many hosts may share.
# @BYTES@ is what comes, and @ROOM@ what it will need in KiB.
set -f
gr_m=@MARK1@; gr_n=@MARK2@; gr_u=; gr_x=; gr_d=
say() { printf "%s%s %s\n" $gr_m $gr_n "$*"; }
@PRIVATE@
@BRING@
drop() { [ "$gr_d" ] && cd / && chmod -R u+rwX "$gr_d" 2>/dev/null; rm -rf "$gr_d"; exit 1; }

try() {
case $1 in /*) ;; *) return 1;; esac
gr_w=$(LC_ALL=C; export LC_ALL; umask 077; exec 2>&1; [ -d "$1" ] || mkdir -p "$1") && real "$1" && set -- "$gr_r" "$gr_r/${2##*/}" &&
gr_w=$(LC_ALL=C; export LC_ALL; umask 077; exec 2>&1; spot "$1" "$2" || { [ "$gr_x" ] && rm -rf "$gr_x"; exit 1; }) && gr_d=$2 && return
say place "$2:" $gr_w
return 1
}
spot() {
mkdir -m 700 "$2" || return
gr_x=$2
alone "$1" "$2" || return
printf "#\041/bin/sh\012" >"$2/try" && chmod 700 "$2/try" || return
"$2/try" 2>/dev/null || { echo "programs cannot be started there (is it mounted noexec?)"; return 1; }
rm -f "$2/try"
set -- $(df -Pk "$2" 2>/dev/null | tail -n 1)
[ "${4-}" -ge 0 ] 2>/dev/null || return 0
[ "$4" -ge @ROOM@ ] || { echo "there is no room for @ROOM@ KiB, but for $4"; return 1; }
}
case ${XDG_CACHE_HOME-} in /*) gr_b=$XDG_CACHE_HOME;; *) gr_b=${HOME-}/.cache;; esac
gr_t=${TMPDIR-}
case $gr_t in /tmp|/tmp/) gr_t=;; esac
try "$gr_t" "$gr_t/gorun-job-$gr_n" || try /tmp "/tmp/gorun-job-$gr_n" || try "$gr_b" "$gr_b/gorun-job-$gr_n" || try /dev/shm "/dev/shm/gorun-job-$gr_n" || exit 0
trap drop 1 2 13 15
command -v tar >/dev/null || { say broken tar is not installed there; drop; }
say need files

# The last entry tells that the archive is whole: one that was cut between two entries looks like one.
gr_w=$(LC_ALL=C; export LC_ALL; exec 2>&1; bring head -c @BYTES@ | tar -x -p -o -f - -C "$gr_d" && { [ -e "$gr_d/@LAST@" ] || { echo "not all of it arrived"; exit 1; }; }) || { say broken $gr_w; drop; }
rm -f "$gr_d/@LAST@"
# Our number is for the agent, which notices when the head is lost: a shell ends its read by a signal, but would wait for a command.
say landed $$ "$gr_d"
while read -r gr_l; do :; done
drop
