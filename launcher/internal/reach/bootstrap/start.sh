# What a host's shell does so that gorun's agent runs there. The lines are joined to one, without comments, and stand
# between single quotes that sh, fish and csh read alike: so there is no single quote, exclamation mark or double
# backslash here. Names begin with gr_, since a variable that the user exports would carry our value to the agent.
# @NAME@ is filled in: @WORDS@ assigns what has to be quoted, @BUILDS@ chooses by $gr_a what is wanted here (gr_k names
# the directory, gr_f lists name:size:hash for each file), @ARGS@ are arguments.
set -f
gr_m=@MARK1@; gr_n=@MARK2@; gr_u=; gr_x=
say() { printf "%s%s %s\n" $gr_m $gr_n "$*"; }
@WORDS@
# The kernel's file costs no process; kernels before 6.1 have none.
{ read -r gr_a </proc/sys/kernel/arch; } 2>/dev/null || gr_a=$(uname -sm)
case ${gr_a#Linux } in @BUILDS@ *) say arch "$gr_a"; exit 0;; esac
@PRIVATE@
@PLACES@
@BRING@

# Whether all files of a copy in $gr_d, which is in $gr_r, are there, and only this user can have changed them.
whole() {
[ -x "$gr_d/$gr_k/gorun" ] || return
set -- "$gr_r" "$gr_d" "$gr_d/$gr_k"
for gr_i in $gr_f; do set -- "$@" "$gr_d/$gr_k/${gr_i%%:*}"; done
private "$@"
}
start() { real "$1" && gr_d=$gr_r/${2##*/} && whole && say run && exec "$gr_d/$gr_k/gorun" @ARGS@; }
places start

# No copy is there: find a place, and hold the room for it before any byte is sent, without writing where that can be.
drop() { rm -rf "$gr_x"; exit 1; }
hold() { fallocate -l "$1" "$2" 2>/dev/null || head -c "$1" /dev/zero >"$2"; }
reserve() { for gr_i in $gr_f; do IFS=:; set -- $gr_i; unset IFS; hold "$2" "$gr_x/$1" || { echo "- there is no room for $2 bytes"; return 1; }; done; }
place() {
gr_w=; { [ -d "$1" ] || gr_w=$(LC_ALL=C; export LC_ALL; umask 077; mkdir -p "$1" 2>&1); } && real "$1" && set -- "$gr_r" "$gr_r/${2##*/}" &&
gr_w=$(LC_ALL=C; export LC_ALL; umask 077; exec 2>&1; usable "$1" "$2" && reserve || { [ "$gr_x" ] && rm -rf "$gr_x"; exit 1; }) && gr_d=$2 && gr_x=$2/.new-$gr_n && return
say place "$2:" $gr_w
return 1
}
places place || exit 0
trap drop 1 2 13 15
gr_z=
for gr_i in gzip zstd; do command -v $gr_i >/dev/null 2>&1 && gr_z=$gr_i; done

# File $1, of $2 bytes with hash $3. Without sha256sum the length has to do, and is not to be that of the reserve.
genuine() {
if command -v sha256sum >/dev/null; then
gr_h=$(sha256sum <"$gr_x/$1")
[ "${gr_h%% *}" = "$3" ] || { echo "what arrived of $1 is not what was sent"; return 1; }
else
[ "$(wc -c <"$gr_x/$1")" -eq "$2" ] || { echo "not all of $1 arrived"; return 1; }
fi
}
# Such a file comes after a line: how many bytes follow, for which unpacker. It is written over what was reserved. An unpacker notices
# faults by its own checksum, and gorun by its hash when it is tried. gorun may be started already, as it was tried there. The threads
# of zstd cost more than they save. One that does not know the option has none, and has read nothing yet.
unpack() { if [ $gr_t = zstd ]; then zstd -q --no-asyncio -dc || zstd -dc 2>/dev/null; else $gr_t -dc; fi; }
arrive() {
read -r gr_l gr_t
if [ "$gr_t" ]; then
unpack 1<>"$gr_x/$1" || { echo "$gr_t cannot unpack what arrived of $1"; return 1; }
else
command -v sha256sum >/dev/null || : >"$gr_x/$1"
cat 1<>"$gr_x/$1" && genuine "$@" || return
fi
[ -x "$gr_x/$1" ] || chmod 700 "$gr_x/$1"
}
# The head of busybox reads ahead. So a shell reads the line, byte by byte, and each file is asked for once the last one is here.
all() { for gr_i in $gr_f; do IFS=:; set -- $gr_i; unset IFS; say need $gr_i $gr_z >&3; bring /bin/sh -c "read -r n z && echo \$n \$z && exec head -c \$n" | arrive "$@" || return; done; }
{ gr_w=$(LC_ALL=C; export LC_ALL; all 2>&1); } 3>&1 || { rm -rf "$gr_x"; say broken "$gr_d:" $gr_w; exit 0; }
# A shell takes a file that is no program for a script, which may do nothing and succeed.
trial() { gr_w=$("$gr_x/gorun" --version ${gr_f##*:} 2>&1 </dev/null) && case $gr_w in *"gorun "*) ;; *) gr_w="what arrived is no program"; false;; esac; }
trial || { gr_c=$?; rm -rf "$gr_x"; say bad $gr_c "$gr_d:" $gr_w; exit 0; }

# The directory becomes the copy. One of another start that was faster stays, as hosts that share it may run it: over NFS they would
# lose its pages. If it is incomplete, the files go there, gorun itself last: once it is there the others are there, too.
settle() {
[ -d "$gr_d/$gr_k" ] || mv "$gr_x" "$gr_d/$gr_k" || [ -d "$gr_d/$gr_k" ] || return
gr_y=$gr_x
[ -d "$gr_y" ] || gr_y=$gr_d/$gr_k/.new-$gr_n
[ -d "$gr_y" ] || return 0
whole || {
alone "$gr_d" "$gr_d/$gr_k" || return
for gr_i in $gr_f; do mv -f "$gr_y/${gr_i%%:*}" "$gr_d/$gr_k/${gr_i%%:*}" || return; done
}
rm -rf "$gr_y"
}
gr_w=$(LC_ALL=C; export LC_ALL; settle 2>&1) || { rm -rf "$gr_x"; say broken "$gr_d:" $gr_w; exit 0; }

# Other versions go once nobody has used them for a month, except the newest three; so does what a start that was cut off left.
old() {
set +f
set -- "$gr_d"/.new-*
[ -e "$1" ] && find "$gr_d" -name ".new-*" -prune -mtime +1 -exec rm -rf {} +
set -- "$gr_d"/*
set -f
[ $# -gt 3 ] && ls -t "$gr_d" | tail -n +4 | while read -r gr_i; do [ "$(find "$gr_d/$gr_i/gorun" -atime +30)" ] && rm -rf "$gr_d/$gr_i"; done
}
old >/dev/null 2>&1 </dev/null
say run
exec "$gr_d/$gr_k/gorun" @ARGS@
