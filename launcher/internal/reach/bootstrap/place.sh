# Where there is room for our files, by preference. Each place is tried by a command with two
# arguments: a directory that is there already, or may be made, and one of our own in it. The user's cache comes first; the
# others, which do not outlive a reboot, are for homes that cannot be written.
places() {
case ${XDG_CACHE_HOME-} in /*) gr_b=$XDG_CACHE_HOME;; *) gr_b=${HOME-}/.cache;; esac
case $gr_b in /.cache) [ "${HOME-}" = / ] || gr_b=;; /*) ;; *) gr_b=;; esac
[ "$gr_b" ] && "$1" "$gr_b" "$gr_b/gorun" && return
user
case ${TMPDIR-} in /tmp|/tmp/) ;; /*) "$1" "$TMPDIR" "$TMPDIR/gorun-$gr_u" && return;; esac
"$1" /tmp "/tmp/gorun-$gr_u" || "$1" /dev/shm "/dev/shm/gorun-$gr_u"
}

# Makes $2 in $1, for this user alone, and in it gr_x with a program, gorun, which is started to see whether that can be done there.
# It speaks in the C locale, as the user may see its messages.
usable() {
gr_x=$2/.new-$gr_n
[ -d "$2" ] || mkdir -p "$gr_x" || return
alone "$1" "$2" || return
[ -d "$gr_x" ] || mkdir "$gr_x" || return
printf "#\041/bin/sh\012" >"$gr_x/gorun" && chmod 700 "$gr_x/gorun" || return
"$gr_x/gorun" 2>/dev/null || { echo "programs cannot be started there (is it mounted noexec?)"; return 1; }
}
