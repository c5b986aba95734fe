# A command that reads what the launcher sends. Nobody on this host has a lease yet, and sshd notices a cut cable after hours: so it has
# @LIMIT@ seconds where there is a timeout. That of an old busybox takes them as the command, which it does not find.
bring() { $gr_e "$@" || case $? in 127) "$@";; 124|143) echo "not all of it came within @LIMIT@ seconds" >&2; false;; *) false;; esac; }
gr_e=; command -v timeout >/dev/null 2>&1 && gr_e="timeout @LIMIT@"
