# Where there is room for our files, by preference. Each place is tried by a command with two
# arguments: a directory that is there already, or may be made, and one of our own in it. The user's cache comes first; the
# others, which do not outlive a reboot, are for homes that cannot be written.
places() {
case ${XDG_CACHE_HOME-} in /*) gr_b=$XDG_CACHE_HOME;; *) gr_b=${HOME-}/.cache;; esac
case $gr_b in /.cache) [ "${HOME-}" = / ] || gr_b=;; /*) ;; *) gr_b=;; esac
[ "$gr_b" ] && "$1" "$gr_b" "$gr_b/gorun" && return
[ "$gr_u" ] || gr_u=$(id -u)
case ${TMPDIR-} in /tmp|/tmp/) ;; /*) "$1" "$TMPDIR" "$TMPDIR/gorun-$gr_u" && return;; esac
"$1" /tmp "/tmp/gorun-$gr_u" || "$1" /dev/shm "/dev/shm/gorun-$gr_u"
}

# Makes $2 in $1, for this user alone, and sees that programs can be started from there.
# It speaks in the C locale, as the user may see its messages.
usable() {
[ -d "$2" ] || mkdir -m 700 "$2" || [ -d "$2" ] || return
alone "$1" "$2" || return
gr_x=$2/.new-$gr_n
mkdir "$gr_x" || return
printf "#\041/bin/sh\012" >"$gr_x/try" && chmod 700 "$gr_x/try" || return
"$gr_x/try" 2>/dev/null || { echo "programs cannot be started there (is it mounted noexec?)"; return 1; }
rm -f "$gr_x/try"
}
