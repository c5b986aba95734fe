# $1 bytes of standard input to standard output. Nobody on this host has a lease yet, and sshd notices a cut cable after hours: so the
# reader has @LIMIT@ seconds where limit finds a timeout.
limit() { timeout 5 true 2>/dev/null && gr_o="timeout @LIMIT@"; }
bring() { $gr_o head -c "$1" || late $?; }
late() {
[ $1 -lt 124 ] || echo "not all of it came within @LIMIT@ seconds" >&2
return 1
}
